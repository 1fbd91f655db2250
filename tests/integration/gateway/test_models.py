"""The gateway before real model servers: ONNX and scikit-learn, both protocols, bytes, and other versions."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.gateway.conftest import EASY, HARD, Client, Site

Shared = Callable[[str], int]


@pytest.mark.parametrize(
    ("edge", "cloud"),
    [("onnx-0", "onnx-100"), ("sklearn-0", "sklearn-100"), ("sklearn-0", "onnx-100"), ("onnx-0", "sklearn-100")],
)
def test_real_models_answer_as_one_in_both_protocols(edge: str, cloud: str, site: Site, shared: Shared) -> None:
    site.configure(shared(edge), shared(cloud), parameters={"threshold": 0.95})
    with Client(site.gateway().ready().port) as client:
        alone = Client(shared(edge))
        same = alone.ask("POST", "/v1/models/m:predict", {"instances": [EASY, HARD]}).json["predictions"]
        easy = client.predict(EASY)
        assert (easy.by, easy.json) == ("edge", {"predictions": [0]})
        mixed = client.predict(EASY, HARD)
        assert (mixed.by, mixed.json["predictions"][0]) == ("mixed", same[0])
        assert mixed.json["predictions"][1] >= 100
        name, datatype = ("x", "FP32") if edge == "onnx-0" else ("input", "FP64")
        inferred = client.infer(EASY, HARD, name=name, datatype=datatype)
        assert inferred.by == "mixed", inferred.body
        label = inferred.json["outputs"][0]
        assert (label["shape"], label["data"][0], label["data"][1] >= 100) == ([2], 0, True)
        alone.close()


def test_tensors_in_bytes_come_back_in_bytes(site: Site, shared: Shared) -> None:
    edge, cloud = shared("onnx-0"), shared("onnx-100")
    site.configure(edge, cloud)
    with Client(site.gateway().ready().port) as client:
        for rows, by in (([EASY, EASY], "edge"), ([EASY, HARD], "mixed"), ([HARD, HARD], "cloud")):
            body, size = binary(rows)
            headers = {"Inference-Header-Content-Length": str(size), "Content-Type": "application/octet-stream"}
            answer = client.ask("POST", "/v2/models/joint/infer", body, headers)
            assert (answer.status, answer.by) == (200, by), answer.body
            length = int(answer.headers["Inference-Header-Content-Length"])
            outputs = json.loads(answer.body[:length])["outputs"]
            assert [output["parameters"]["binary_data_size"] for output in outputs] == [16, 24]
            labels = struct.unpack("<2q", answer.body[length : length + 16])
            assert labels == tuple((0 if row is EASY else 101) for row in rows)
            probabilities = struct.unpack("<6f", answer.body[length + 16 :])
            assert sum(probabilities) == pytest.approx(2)


def binary(rows: list[list[float]]) -> tuple[bytes, int]:
    data = struct.pack(f"<{3 * len(rows)}f", *(value for row in rows for value in row))
    tensor: dict[str, Any] = {"name": "x", "shape": [len(rows), 3], "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": len(data)}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return head + data, len(head)


def test_what_a_model_refuses_is_what_it_would_say_itself(site: Site, shared: Shared) -> None:
    edge, cloud = shared("onnx-0"), shared("onnx-100")
    site.configure(edge, cloud)
    bodies = [
        {"instances": [[1.0]]},
        {"instances": [["a", "b", "c"]]},
        {"instances": [EASY], "signature_name": "nope"},
        {"instances": [{"y": EASY}]},
        {"inputs": [[[1.0]]]},
    ]
    with Client(site.gateway().ready().port) as client, Client(edge) as alone:
        for body in bodies:
            through = client.ask("POST", "/v1/models/joint:predict", body)
            itself = alone.ask("POST", "/v1/models/m:predict", body)
            assert (through.status, through.json) == (itself.status, itself.json) == (400, through.json)
        for tensor in ({"shape": [1, 2]}, {"datatype": "INT8"}, {"name": "y"}, {"data": ["a", "b", "c"]}):
            whole = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": EASY} | tensor]}
            through = client.ask("POST", "/v2/models/joint/infer", whole)
            assert through.status == alone.ask("POST", "/v2/models/m/infer", whole).status == 400, through.body
        assert client.predict(EASY, HARD).by == "mixed"


def test_hard_rows_are_kept_for_the_next_training(site: Site, shared: Shared) -> None:
    edge, cloud = shared("onnx-0"), shared("onnx-100")
    kept = site.folder / "kept"
    site.configure(edge, cloud, keepFolder=str(kept), keepMaxBytes=100_000)
    gateway = site.gateway().ready()
    with Client(gateway.port) as client:
        for _ in range(3):
            assert client.predict(EASY, HARD).by == "mixed"
        gateway.shows(lambda state: state.kept_bytes, "kept bytes in the state")
    assert gateway.server.end() == 0
    examples = [
        json.loads(line) for path in sorted(kept.glob("hard-*.jsonl")) for line in path.read_text().splitlines()
    ]
    assert [example["inputs"]["x"] for example in examples] == [HARD] * 3
    assert [example["cloud"]["outputs"]["label"] for example in examples] == [101] * 3
    assert gateway.state.kept_bytes == sum(path.stat().st_size for path in kept.iterdir())
    command = [sys.executable, "-c", snippet() + "        print(row, label)\n"]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True)
    assert done.stdout == f"{HARD} 101\n" * 3, done.stderr


def snippet() -> str:
    """The program in docs/gateway.md that reads kept examples."""
    text = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text()
    found = re.search(r"```python\n(import json.*?)```", text, re.DOTALL)
    assert found
    return found[1]
