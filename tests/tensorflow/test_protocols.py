"""Both protocols on a SavedModel with several signatures."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.serve.asgi import Client
from tests.unit.serve.test_any_request import INPUTS, LEAVES, SHAPES, VALUES

from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.registry import Registry


class Served:
    """A client, on a loop that lives as long as the tests."""

    def __init__(self, runner: asyncio.Runner, folder: Path) -> None:
        self._runner = runner
        self.registry = Registry(allow_unsafe_formats=False, on_change=lambda: None)
        version = VersionConfig("v7", 7, str(folder), labels=("stable",))
        runner.run(self.registry.apply(ServerConfig("m", "tensorflow", (version,), "v7")))
        self._client = Client(self.registry)

    def get(self, path: str) -> Any:
        return self._runner.run(self._client.get(path)).json

    def ask(self, path: str, body: Any, **rest: Any) -> Any:
        return self._runner.run(self._client.ask("POST", path, body, **rest))

    def predict(self, body: Any, version: str = "") -> Any:
        return self.ask(f"/v1/models/m{version}:predict", body).json

    def infer(self, inputs: list[Any], **rest: Any) -> Any:
        return self.ask("/v2/models/m/infer", {"inputs": inputs, **rest}).json


@pytest.fixture(scope="module")
def served(models: Path) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        yield Served(runner, models / "many")


def tensor(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def test_rows_and_columns_of_the_default_signature(served: Served) -> None:
    rows = [{"large": False, "score": [21.0]}, {"large": True, "score": [6.0]}]
    assert served.predict({"instances": [[1, 2], [6, 0]]}) == {"predictions": rows}
    assert served.predict({"instances": [{"x": [1, 2]}, {"x": [6, 0]}]}) == {"predictions": rows}
    columns = {"large": [False, True], "score": [[21.0], [6.0]]}
    for place in ("", "/versions/7", "/labels/stable"):
        assert served.predict({"inputs": [[1, 2], [6, 0]]}, place) == {"outputs": columns}


def test_a_signature_of_two_inputs_and_outputs_by_its_name(served: Served) -> None:
    body = {"signature_name": "pair", "instances": [{"a": [1, 2], "n": 4}, {"a": [0, 1], "n": 5}]}
    assert served.predict(body) == {"predictions": [{"next": 5, "sum": 3.0}, {"next": 6, "sum": 1.0}]}
    columns = {"signature_name": "pair", "inputs": {"a": [[1, 2]], "n": [4]}}
    assert served.predict(columns) == {"outputs": {"next": [5], "sum": [3.0]}}
    inputs = [tensor("a", "FP32", [1, 2], [1, 2]), tensor("n", "INT64", [1], [4])]
    answer = served.infer(inputs, parameters={"signature_name": "pair"}, outputs=[{"name": "next"}])
    assert answer["outputs"] == [tensor("next", "INT64", [1], [5])]


def test_text_and_base64_both_ways(served: Served) -> None:
    raw = {"b64": base64.b64encode(b"\xff\x00z").decode()}
    cafe = {"b64": base64.b64encode("café".encode()).decode()}
    answer = served.predict({"signature_name": "text", "instances": ["café", raw]})
    upper = {"b64": base64.b64encode(b"\xff\x00Z").decode()}
    assert answer["predictions"] == [{"raw_bytes": cafe, "upper": "CAFé"}, {"raw_bytes": raw, "upper": upper}]
    infer = served.infer([tensor("s", "BYTES", [1], ["a"])], parameters={"signature_name": "text"})
    assert [output["data"] for output in infer["outputs"]] == [["a"], ["A"]]


def test_a_binary_tensor_of_bytes(served: Served) -> None:
    head = json.dumps(
        {
            "inputs": [
                {"name": "s", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
            ],
            "parameters": {"signature_name": "text", "binary_data_output": True},
            "outputs": [{"name": "upper"}],
        }
    ).encode()
    headers = ((b"inference-header-content-length", str(len(head)).encode()),)
    answer = served.ask("/v2/models/m/infer", head + b"\x02\x00\x00\x00\xffz", headers=headers)
    assert (answer.status, answer.body[-6:]) == (200, b"\x02\x00\x00\x00\xffZ")


def test_scalars_and_signatures_without_inputs_are_asked_in_columns(served: Served) -> None:
    assert served.predict({"signature_name": "scalar", "inputs": 1.5}) == {"outputs": 3.0}
    assert served.predict({"signature_name": "scalar", "inputs": {"v": 1.5}}) == {"outputs": 3.0}
    assert served.predict({"signature_name": "nothing", "inputs": {}}) == {"outputs": ["no", "yes"]}
    scalar = served.infer([tensor("v", "FP32", [], [1.5])], parameters={"signature_name": "scalar"})
    assert scalar["outputs"] == [tensor("twice", "FP32", [], [3.0])]


@pytest.mark.parametrize("value", [1.0, [1.0], [[1.0, 2.0]], [[[1.0]], [[2.0]]]])
def test_any_rank_is_taken_where_the_model_takes_any(served: Served, value: Any) -> None:
    body = {"signature_name": "any", "inputs": value}
    assert served.predict(body)["outputs"] == negated(value)


def negated(value: Any) -> Any:
    return [negated(each) for each in value] if isinstance(value, list) else -value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"instances": [[1, 2, 3]]}, "has shape [1, 3]; the model takes [-1, 2]"),
        ({"instances": [[1, 2], [3]]}, "not a full tensor"),
        ({"instances": [["a", "b"]]}, "not FP32 data"),
        ({"instances": 1}, "not FP32 data"),
        ({"signature_name": "pair", "inputs": {"a": [[1, 2]], "n": [1.5]}}, "not INT64 data"),
        ({"signature_name": "pair", "inputs": {"a": [[1, 2]]}}, "the model takes ['a', 'n']"),
        ({"signature_name": "scalar", "instances": [1.0, 2.0]}, "takes a single value"),
        ({"signature_name": "image", "inputs": {"b64": "AAAA"}}, "cannot compute this request: Unknown image"),
        ({"signature_name": "image", "inputs": {"b64": "A"}}, "not base64"),
        ({"signature_name": "nothing", "instances": [1]}, "takes no tensors"),
        ({"signature_name": "__saved_model_init_op", "inputs": {}}, "no signature '__saved_model_init_op'"),
        ({"signature_name": "all_outputs", "instances": [[1, 2]]}, "it has any, brain, image"),
        ({"signature_name": "brain", "inputs": [1e39]}, "outside the range"),
    ],
)
def test_what_does_not_fit_is_the_clients_fault(served: Served, body: Any, message: str) -> None:
    answer = served.ask("/v1/models/m:predict", body)
    assert (answer.status, message in answer.json["error"]) == (400, True), answer.json


def test_the_metadata_of_both_protocols(served: Served) -> None:
    metadata = served.get("/v2/models/m")
    assert (metadata["platform"], metadata["versions"]) == ("tensorflow_savedmodel", ["v7"])
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert [output["name"] for output in metadata["outputs"]] == ["large", "score"]
    found = served.get("/v1/models/m/metadata")
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "7"}
    signatures = found["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"]["outputs"]["score"]["tensor_shape"] == {
        "dim": [{"size": "-1", "name": ""}, {"size": "1", "name": ""}],
        "unknown_rank": False,
    }
    assert sorted(signatures) == ["__saved_model_init_op", *sorted(signatures)[1:]]
    assert served.get("/v1/models/m")["model_version_status"] == [
        {"version": "7", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    ]


NAMES = st.sampled_from(["serving_default", "pair", "text", "image", "scalar", "nothing", "any", "brain"])
NAMED = st.sampled_from(["x", "a", "n", "s", "png", "v", "any", "h"])
COLUMNS = st.dictionaries(NAMED, VALUES, max_size=2) | VALUES
PREDICT = st.fixed_dictionaries({"signature_name": NAMES}, optional={"instances": VALUES, "inputs": COLUMNS})
TENSORS = st.tuples(INPUTS, NAMED, SHAPES).map(lambda drawn: {**drawn[0], "name": drawn[1], "shape": drawn[2]})
INFER = st.fixed_dictionaries(
    {"inputs": st.lists(TENSORS, max_size=2), "parameters": st.fixed_dictionaries({"signature_name": NAMES | LEAVES})}
)
BODIES = st.tuples(st.just("/v1/models/m:predict"), PREDICT) | st.tuples(st.just("/v2/models/m/infer"), INFER)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BODIES)
def test_no_body_makes_the_server_fail(served: Served, case: tuple[str, Any]) -> None:
    path, body = case
    answer = served.ask(path, json.dumps(body).encode())
    assert answer.status in (200, 400), (body, answer)
