"""Models with signatures of their own, from a plug-in, through both protocols."""

from __future__ import annotations

import base64
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.loaded import Recipe as LoadRecipe
from modelwright.serve.loaded import load_version
from modelwright.serve.registry import Registry

PLUG_IN = '''
"""Arithmetic with signatures: those that the model's folder names."""

import numpy as np

from modelwright.serve.frameworks.base import Signature
from modelwright.serve.tensors import TensorSpec

ROWS = TensorSpec("x", "FP32", (-1, 2))
WORDS = TensorSpec("s", "BYTES", (-1,), binary=True)
ALL = {
    "serving_default": Signature((ROWS,), (TensorSpec("y", "FP32", (-1, 2)),), lambda inputs: {"y": inputs["x"] * 2}),
    "half": Signature((ROWS,), (TensorSpec("y", "FP32", (-1, 2)),), lambda inputs: {"y": inputs["x"] / 2}),
    "words": Signature(
        (WORDS,),
        (TensorSpec("t", "BYTES", (-1,)), TensorSpec("t_bytes", "BYTES", (-1,))),
        lambda inputs: {"t": inputs["s"], "t_bytes": inputs["s"]},
    ),
    "constant": Signature((), (TensorSpec("n", "INT32", (2,)),), lambda inputs: {"n": np.array([1, 2], np.int32)}),
}


class Arithmetic:
    platform = "arithmetic"
    closed = []

    def __init__(self, names):
        self.signatures = {name: ALL[name] for name in names}
        self.definitions = {name: {"method_name": "arithmetic"} for name in names}
        default = ALL.get(names[0]) if "serving_default" in names or len(names) == 1 else None
        self.inputs, self.outputs = (default.inputs, default.outputs) if default else ((), ())
        self.primary = tuple(spec.name for spec in self.outputs)

    def predict(self, inputs):
        return ALL["serving_default"].predict(inputs) if inputs else {}

    def close(self):
        self.closed.append(tuple(self.signatures))


class Framework:
    def load(self, path, options):
        return Arithmetic((path / "names").read_text().split())
'''


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plug-in as an installed distribution; the module, once it is loaded."""
    site = tmp_path / "site"
    info = site / "arithmetic-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: arithmetic\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[modelwright.frameworks]\narithmetic = serve_test_arithmetic:Framework\n")
    (site / "serve_test_arithmetic.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(str(site))
    yield lambda: sys.modules["serve_test_arithmetic"]
    sys.modules.pop("serve_test_arithmetic", None)


def model(tmp_path: Path, *names: str) -> VersionConfig:
    folder = tmp_path / "-".join(names)
    folder.mkdir(exist_ok=True)
    (folder / "names").write_text(" ".join(names))
    return VersionConfig("v1", 1, str(folder))


Serve = Callable[..., Awaitable[Any]]


@pytest.fixture
def served(tmp_path: Path, plug_in: Any, asgi_client: type[Any]) -> Serve:
    async def start(*names: str) -> Any:
        registry = Registry(allow_unsafe_formats=False, on_change=lambda: None)
        version = model(tmp_path, *names)
        await registry.apply(ServerConfig("m", "arithmetic", (version,), "v1"))
        return asgi_client(registry)

    return start


def tensor(name: str, datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape or [len(data)], "data": data}


@pytest.mark.anyio
async def test_a_request_names_its_signature_in_both_protocols(served: Serve) -> None:
    client = await served("serving_default", "half", "words")
    rows = {"instances": [[2, 4]]}
    assert (await client.post("/v1/models/m:predict", rows)).json == {"predictions": [[4.0, 8.0]]}
    assert (await client.post("/v1/models/m:predict", {**rows, "signature_name": "half"})).json == {
        "predictions": [[1.0, 2.0]]
    }
    x = tensor("x", "FP32", [2, 4], [1, 2])
    for parameters, expected in (({}, [4.0, 8.0]), ({"signature_name": "half"}, [1.0, 2.0])):
        answer = await client.post("/v2/models/m/infer", {"inputs": [x], "parameters": parameters})
        assert answer.json["outputs"][0]["data"] == expected


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/models/m:predict", {"instances": [[1, 2]], "signature_name": "y"}, "no signature 'y'; it has half"),
        ("/v1/models/m:predict", {"instances": [[1, 2]], "signature_name": "all_outputs"}, "no signature"),
        ("/v1/models/m:predict", {"instances": [[1, 2]]}, "no signature 'serving_default'"),
        ("/v2/models/m/infer", {"inputs": [tensor("x", "FP32", [1, 2], [1, 2])]}, "no signature 'serving_default'"),
        ("/v2/models/m/infer", {"inputs": [], "parameters": {"signature_name": 7}}, "must be a string"),
        ("/v2/models/m/infer", {"inputs": [], "parameters": {"signature_name": "half"}}, "missing: 'x'"),
        ("/v1/models/m:predict", {"instances": ["a"], "signature_name": "half"}, "nested 2 deep"),
    ],
)
async def test_a_signature_that_is_not_there_or_does_not_fit_is_the_clients_fault(
    served: Serve, path: str, body: Any, message: str
) -> None:
    client = await served("half", "words")
    answer = await client.post(path, body)
    assert (answer.status, message in answer.json["error"]) == (400, True), answer.json


@pytest.mark.anyio
async def test_the_only_signature_is_the_default(served: Serve) -> None:
    client = await served("words")
    assert (await client.post("/v1/models/m:predict", {"inputs": ["a"]})).status == 200
    metadata = (await client.get("/v2/models/m")).json
    assert [spec["name"] for spec in metadata["inputs"]] == ["s"]


@pytest.mark.anyio
async def test_the_metadata_shows_what_the_model_defines(served: Serve) -> None:
    client = await served("serving_default", "half")
    found = (await client.get("/v1/models/m/metadata")).json
    assert found["metadata"]["signature_def"]["signature_def"] == {
        "serving_default": {"method_name": "arithmetic"},
        "half": {"method_name": "arithmetic"},
    }
    metadata = (await client.get("/v2/models/m")).json
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]


@pytest.mark.anyio
async def test_strings_of_any_bytes_are_taken_and_given_as_base64(served: Serve) -> None:
    client = await served("words")
    raw = {"b64": base64.b64encode(b"\xff\x00").decode()}
    answer = await client.post("/v1/models/m:predict", {"instances": [raw, "café"]})
    assert answer.json["predictions"] == [
        {"t": raw, "t_bytes": raw},
        {"t": "café", "t_bytes": {"b64": base64.b64encode("café".encode()).decode()}},
    ]
    head = b'{"inputs":[{"name":"s","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}}],'
    head += b'"parameters":{"binary_data_output":true},"outputs":[{"name":"t"}]}'
    headers = ((b"inference-header-content-length", str(len(head)).encode()),)
    binary = await client.ask("POST", "/v2/models/m/infer", head + b"\x02\x00\x00\x00\xff\x00", headers=headers)
    assert binary.body.endswith(b"\x02\x00\x00\x00\xff\x00")
    refused = await client.post("/v1/models/m:predict", {"instances": [{"b64": "%%"}]})
    assert (refused.status, "not base64" in refused.json["error"]) == (400, True)


@pytest.mark.anyio
async def test_a_signature_without_inputs_is_asked_in_columns(served: Serve) -> None:
    client = await served("serving_default", "constant")
    body = {"signature_name": "constant"}
    assert (await client.post("/v1/models/m:predict", {**body, "inputs": {}})).json == {"outputs": [1, 2]}
    wrong: list[list[Any]] = [[], [{}], [1]]
    for rows in wrong:
        refused = await client.post("/v1/models/m:predict", {**body, "instances": rows})
        assert (refused.status, "takes no tensors" in refused.json["error"]) == (400, True)


def test_a_model_is_closed_when_the_last_that_holds_it_is_released(tmp_path: Path, plug_in: Any) -> None:
    version = model(tmp_path, "half", "serving_default")
    recipe = LoadRecipe(version.path, "arithmetic", 0)
    first = load_version(version, recipe, allow_unsafe_formats=False)
    second = first.renamed(VersionConfig("v1", 2, version.path))
    third = second.renamed(VersionConfig("v1", 3, version.path))
    closed: list[Any] = plug_in().Arithmetic.closed
    for held in (second, first):
        held.release()
        assert closed == []
    assert third.function("half").outputs == ("y",)
    third.release()
    assert closed == [("half", "serving_default")]
