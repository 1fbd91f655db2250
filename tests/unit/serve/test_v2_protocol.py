"""Open Inference Protocol v2 (REST)."""

from __future__ import annotations

from typing import Any

import pytest

from modelwright import __version__

INFER = "/v2/models/m/infer"


def tensor(data: Any, shape: list[Any], datatype: str = "FP32", name: str = "x", **rest: Any) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data, **rest}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ([1, 2, 3], [1, 3]),
        ([[1, 2, 3]], [1, 3]),
        ([1.5, 2, -3e2, 4, 5, 6], [2, 3]),
        ([[1.5, 2, -300], [4, 5, 6]], [2, 3]),
        ([], [0, 3]),
    ],
)
async def test_flat_and_nested_data_are_the_same(serve: Any, data: Any, shape: list[int]) -> None:
    client = await serve("affine")
    answer = await client.post(INFER, {"inputs": [tensor(data, shape)]})
    flat = [item for row in data for item in row] if data and isinstance(data[0], list) else data
    assert answer.status == 200
    assert answer.json == {
        "model_name": "m",
        "model_version": "affine",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": shape, "data": [2.0 * x + 1 for x in flat]}],
    }


@pytest.mark.anyio
async def test_the_answer_repeats_the_id_and_names_the_version(serve: Any) -> None:
    client = await serve("affine")
    body = {"id": "a-1", "inputs": [tensor([1, 2, 3], [1, 3], parameters={"note": 1})], "parameters": {"any": True}}
    answer = await client.post(INFER, body)
    assert answer.json["id"] == "a-1"
    assert answer.headers["x-model-version"] == "affine"
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.anyio
async def test_only_the_requested_outputs_are_given_in_their_order(serve: Any) -> None:
    client = await serve("pair")
    inputs = [tensor([1, 2], [1, 2], name="a"), tensor([3, 4], [1, 2], name="b")]
    both = await client.post(INFER, {"inputs": inputs, "outputs": [{"name": "difference"}, {"name": "product"}]})
    assert [output["name"] for output in both.json["outputs"]] == ["difference", "product"]
    one = await client.post(INFER, {"inputs": inputs[::-1], "outputs": [{"name": "product", "parameters": {}}]})
    assert one.json["outputs"] == [{"name": "product", "datatype": "FP32", "shape": [1, 2], "data": [3.0, 8.0]}]


@pytest.mark.anyio
async def test_strings_are_bytes_tensors(serve: Any) -> None:
    client = await serve("text")
    answer = await client.post(INFER, {"inputs": [tensor(["a", "é", ""], [3], "BYTES", "s")]})
    assert answer.json["outputs"] == [{"name": "t", "datatype": "BYTES", "shape": [3], "data": ["a", "é", ""]}]


@pytest.mark.anyio
async def test_numbers_that_json_cannot_spell_are_null(serve: Any) -> None:
    client = await serve("pair")
    big = [tensor([3e38, 1], [1, 2], name=name) for name in "ab"]
    answer = await client.post(INFER, {"inputs": big, "outputs": [{"name": "product"}]})
    assert answer.json["outputs"][0]["data"] == [None, 1.0]


BAD_BODIES: list[tuple[Any, str]] = [
    (b"", "not an inference request"),
    (b"{", "not an inference request"),
    (b"[]", "Expected `object`"),
    (b"\xff\xfe", "not an inference request"),
    (b'{"inputs": null}', "Expected `array`"),
    ({}, "missing required field `inputs`"),
    ({"inputs": []}, "missing: 'x'"),
    ({"inputs": [{}]}, "missing required field `name`"),
    ({"inputs": [tensor([1, 2, 3], [1, 3])] * 2}, "given twice"),
    ({"inputs": [tensor([1, 2, 3], [1, 3], name="z")]}, "no input 'z'; it takes 'x'"),
    ({"inputs": [tensor([1, 2, 3], [1, 3], "FP64")]}, "has datatype FP64; the model takes FP32"),
    ({"inputs": [tensor([1, 2, 3], [1, 3], "float")]}, "has datatype float"),
    ({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32"}]}, "neither data nor a binary_data_size"),
    ({"inputs": [tensor([1, 2, 3], [3])]}, "the model takes [-1, 3]"),
    ({"inputs": [tensor([1, 2], [1, 2])]}, "the model takes [-1, 3]"),
    ({"inputs": [tensor([1, 2, 3], [-1, 3])]}, "zero or more"),
    ({"inputs": [tensor([1, 2, 3], [1.5, 3])]}, "Expected `int`"),
    ({"inputs": [tensor([1, 2, 3], [2, 3])]}, "3 elements"),
    ({"inputs": [tensor([1, 2, 3], [99999999999999, 3])]}, "3 elements"),
    ({"inputs": [tensor([1, 2, 3], [2**70, 3])]}, "3 elements"),
    ({"inputs": [tensor([[1, 2, 3]], [2, 3])]}, "the shape [1, 3]"),
    ({"inputs": [tensor([[1, 2], [3]], [2, 3])]}, "differ in length"),
    ({"inputs": [tensor([[[1, 2, 3]]], [1, 3])]}, "nested 3 deep"),
    ({"inputs": [tensor([[1], 2, 3], [1, 3])]}, "Expected `array`"),
    ({"inputs": [tensor([1, [2], 3], [1, 3])]}, "Expected `float`"),
    ({"inputs": [tensor(1, [1, 3])]}, "nested 0 deep"),
    ({"inputs": [tensor("1,2,3", [1, 3])]}, "nested 0 deep"),
    ({"inputs": [tensor(None, [1, 3])]}, "nested 0 deep"),
    ({"inputs": [tensor({"a": 1}, [1, 3])]}, "nested 0 deep"),
    ({"inputs": [tensor(["1", 2, 3], [1, 3])]}, "Expected `float`"),
    ({"inputs": [tensor([True, 2, 3], [1, 3])]}, "Expected `float`"),
    ({"inputs": [tensor([None, 2, 3], [1, 3])]}, "Expected `float`"),
    ({"inputs": [tensor([1e39, 2, 3], [1, 3])]}, "outside the range of FP32"),
    (b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[NaN,1,2]}]}', "not an inference request"),
    (b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1e999,1,2]}]}', "out of range"),
    ({"inputs": [tensor([1, 2, 3], [1, 3])], "id": 7}, "Expected `str | null`"),
    ({"inputs": [tensor([1, 2, 3], [1, 3])], "outputs": [{"name": "z"}]}, "no output 'z'; it gives 'y'"),
    ({"inputs": [tensor([1, 2, 3], [1, 3])], "outputs": [{"name": "y"}] * 2}, "asked for twice"),
    ({"inputs": [tensor([1, 2, 3], [1, 3])], "outputs": "y"}, "Expected `array | null`"),
    ({"inputs": [tensor([1, 2, 3], [1, 3])], "parameters": 1}, "Expected `object | null`"),
    (b'{"inputs":' + b"[" * 100_000, "not an inference request"),
    (b'{"inputs":[],"parameters":{"a":' + b"[" * 100_000, "not an inference request"),
    (b'{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":' + b"[" * 100_000, "not an inference request"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("body", "message"), BAD_BODIES)
async def test_a_bad_request_is_refused_and_told_why(serve: Any, body: Any, message: str) -> None:
    client = await serve("affine")
    answer = await client.post(INFER, body)
    assert answer.status == 400
    assert list(answer.json) == ["error"]
    assert message in answer.json["error"]


@pytest.mark.anyio
async def test_values_that_the_graph_refuses_are_the_clients_fault(serve: Any) -> None:
    client = await serve("fold")
    answer = await client.post(INFER, {"inputs": [tensor([1, 2, 3], [1, 3])]})
    assert answer.status == 400
    assert "cannot compute this request" in answer.json["error"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/", 404),
        ("GET", "/v3", 404),
        ("GET", "/v2/models", 404),
        ("GET", "/v2/models/other", 404),
        ("GET", "/v2/models/m/other", 404),
        ("GET", "/v2/models/m/versions", 404),
        ("GET", "/v2/models/m/versions/none", 404),
        ("GET", "/v2/models/m/versions/none/ready", 404),
        ("GET", "/v2/models/m/versions/affine/ready/more", 404),
        ("POST", "/v2/models/other/infer", 404),
        ("GET", INFER, 405),
        ("DELETE", INFER, 405),
        ("POST", "/v2", 405),
        ("POST", "/v2/health/ready", 405),
        ("POST", "/metrics", 405),
        ("GET", "/v2/health/other", 404),
        ("GET", "/v2/models/%ff%2f", 404),
    ],
)
async def test_other_paths_and_methods_are_refused_as_json(serve: Any, method: str, path: str, status: int) -> None:
    client = await serve("affine")
    answer = await client.ask(method, path, {"inputs": [tensor([1, 2, 3], [1, 3])]})
    assert answer.status == status
    assert answer.json["error"]


@pytest.mark.anyio
async def test_a_refused_method_is_told_the_right_one(serve: Any) -> None:
    client = await serve("affine")
    assert (await client.get(INFER)).headers["allow"] == "POST"


@pytest.mark.anyio
async def test_versions_are_reached_by_name_and_by_number(serve: Any) -> None:
    client = await serve("affine", "triple")
    body = {"inputs": [tensor([1, 1, 1], [1, 3])]}
    seen = {}
    for path in ("", "/versions/affine", "/versions/1", "/versions/triple", "/versions/2"):
        answer = await client.post(f"/v2/models/m{path}/infer", body)
        seen[path] = (answer.json["model_version"], answer.json["outputs"][0]["data"][0])
    assert seen == {
        "": ("triple", 4.0),
        "/versions/affine": ("affine", 3.0),
        "/versions/1": ("affine", 3.0),
        "/versions/triple": ("triple", 4.0),
        "/versions/2": ("triple", 4.0),
    }


@pytest.mark.anyio
async def test_metadata_describes_the_server_and_the_model(serve: Any) -> None:
    client = await serve("affine", "classifier")
    assert (await client.get("/v2")).json == {
        "name": "modelwright",
        "version": __version__,
        "extensions": ["binary_tensor_data"],
    }
    model = (await client.get("/v2/models/m")).json
    assert model == {
        "name": "m",
        "versions": ["affine", "classifier"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [
            {"name": "label", "datatype": "INT64", "shape": [-1]},
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, 3]},
        ],
    }
    assert (await client.get("/v2/models/m/versions/affine")).json["versions"] == ["affine"]


@pytest.mark.anyio
async def test_readiness_is_told_for_the_server_the_model_and_a_version(serve: Any) -> None:
    client = await serve("affine")
    assert (await client.get("/v2/health/live")).json == {"live": True}
    assert (await client.get("/v2/health/ready")).json == {"ready": True}
    for path in ("/v2/models/m/ready", "/v2/models/m/versions/affine/ready"):
        assert (await client.get(path)).json == {"name": "m", "ready": True}
    client.app.draining = True
    assert (await client.get("/v2/health/ready")).status == 503
    assert (await client.get("/v2/health/live")).status == 200


@pytest.mark.anyio
async def test_without_a_loaded_version_nothing_is_ready_and_requests_may_be_retried(serve: Any) -> None:
    client = await serve("missing")
    assert (await client.get("/v2/health/ready")).status == 503
    assert (await client.get("/v2/models/m/ready")).status == 503
    answer = await client.post(INFER, {"inputs": []})
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.anyio
async def test_a_body_above_the_limit_is_refused(serve: Any) -> None:
    client = await serve("affine", max_request_bytes=200)
    fits = {"inputs": [tensor([1, 2, 3], [1, 3])]}
    assert (await client.ask("POST", INFER, fits, chunks=3)).status == 200
    for chunks in (1, 4):
        answer = await client.ask("POST", INFER, {**fits, "id": "x" * 200}, chunks=chunks)
        assert answer.status == 413
        assert "200 bytes" in answer.json["error"]
