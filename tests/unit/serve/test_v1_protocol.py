"""TensorFlow Serving's REST API."""

from __future__ import annotations

import json
from typing import Any

import pytest

PREDICT = "/v1/models/m:predict"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({"instances": [[1, 2, 3]]}, {"predictions": [[3.0, 5.0, 7.0]]}),
        ({"instances": [[1, 2, 3], [0, 0, 0.5]]}, {"predictions": [[3.0, 5.0, 7.0], [1.0, 1.0, 2.0]]}),
        ({"instances": [{"x": [1, 2, 3]}]}, {"predictions": [[3.0, 5.0, 7.0]]}),
        ({"inputs": [[1, 2, 3]]}, {"outputs": [[3.0, 5.0, 7.0]]}),
        ({"inputs": {"x": [[1, 2, 3]]}}, {"outputs": [[3.0, 5.0, 7.0]]}),
        ({"signature_name": "serving_default", "instances": [[1, 2, 3]]}, {"predictions": [[3.0, 5.0, 7.0]]}),
        ({"signature_name": "y", "inputs": [[1, 2, 3]]}, {"outputs": [[3.0, 5.0, 7.0]]}),
        ({"signature_name": None, "inputs": [[1, 2, 3]], "more": 1}, {"outputs": [[3.0, 5.0, 7.0]]}),
    ],
)
async def test_rows_and_columns_of_one_input(serve: Any, body: Any, answer: Any) -> None:
    client = await serve("affine")
    got = await client.post(PREDICT, body)
    assert got.json == answer
    assert got.headers["x-model-version"] == "affine"


@pytest.mark.anyio
async def test_several_inputs_are_named(serve: Any) -> None:
    client = await serve("pair")
    rows = await client.post(PREDICT, {"instances": [{"a": [1, 2], "b": [3, 4]}, {"b": [0, 1], "a": [1, 1]}]})
    assert rows.json == {
        "predictions": [
            {"product": [3.0, 8.0], "difference": [-2.0, -2.0]},
            {"product": [0.0, 1.0], "difference": [1.0, 0.0]},
        ]
    }
    columns = await client.post(PREDICT, {"inputs": {"a": [[1, 2]], "b": [[3, 4]]}})
    assert columns.json == {"outputs": {"product": [[3.0, 8.0]], "difference": [[-2.0, -2.0]]}}


@pytest.mark.anyio
async def test_a_classifier_predicts_labels_and_other_signatures_show_the_rest(serve: Any) -> None:
    client = await serve("classifier")
    rows = [[0, 9, 0], [9, 0, 0]]
    assert (await client.post(PREDICT, {"instances": rows})).json == {"predictions": [1, 0]}
    shares = await client.post(PREDICT, {"instances": rows, "signature_name": "probabilities"})
    assert [max(row) == row[want] for row, want in zip(shares.json["predictions"], [1, 0], strict=True)] == [True, True]
    everything = await client.post(PREDICT, {"instances": rows, "signature_name": "all_outputs"})
    assert [set(row) for row in everything.json["predictions"]] == [{"label", "probabilities"}] * 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"instances": ["a", "é"]}, "predictions"),
        ({"instances": [{"b64": "YQ=="}, {"b64": "w6k="}]}, "predictions"),
        ({"instances": [{"s": "a"}, {"s": {"b64": "w6k="}}]}, "predictions"),
        ({"inputs": {"s": ["a", "é"]}}, "outputs"),
    ],
)
async def test_strings_may_be_spelled_in_base64(serve: Any, body: Any, key: str) -> None:
    client = await serve("text")
    assert (await client.post(PREDICT, body)).json == {key: ["a", "é"]}


@pytest.mark.anyio
async def test_the_tokens_nan_and_infinity_are_taken_and_given(serve: Any) -> None:
    client = await serve("affine")
    answer = await client.post(PREDICT, b'{"instances": [[NaN, Infinity, 1]]}')
    assert answer.status == 200
    assert answer.body == b'{"predictions":[[NaN,Infinity,3.0]]}'
    named = await client.post(PREDICT, b'{"instances": [{"x": [-Infinity, 0, 1]}]}')
    assert json.loads(named.body)["predictions"][0][0] == float("-inf")


BAD_BODIES: list[tuple[Any, str]] = [
    (b"", "not a predict request"),
    (b"nonsense", "not a predict request"),
    (b"[NaN]", "not a predict request"),
    (b'{"instances": [[NaN, 1, 2]', "not a predict request"),
    (b'{"instances": ' + b"[" * 100_000 + b"NaN", "not a predict request"),
    (b'{"instances": ' + b"[" * 900 + b"]" * 900 + b"}", "nested 2 deep"),
    (b'{"inputs": {"x":' + b"[" * 900 + b"]" * 900 + b"}}", "nested 2 deep"),
    ({}, "either as 'instances' (rows) or as 'inputs'"),
    ({"instances": [[1, 2, 3]], "inputs": [[1, 2, 3]]}, "either as 'instances'"),
    ({"signature_name": "other", "instances": [[1, 2, 3]]}, "no signature 'other'; it has serving_default"),
    ({"signature_name": 1, "instances": [[1, 2, 3]]}, "not a predict request"),
    ({"instances": []}, "is empty"),
    ({"instances": None}, "nested 2 deep"),
    ({"instances": 1}, "nested 2 deep"),
    ({"instances": "abc"}, "nested 2 deep"),
    ({"instances": {"x": [1, 2, 3]}}, "nested 2 deep"),
    ({"instances": [1, 2, 3]}, "nested 2 deep"),
    ({"instances": [[1, 2]]}, "the model takes [-1, 3]"),
    ({"instances": [[[1, 2, 3]]]}, "nested 2 deep"),
    ({"instances": [[1, 2, 3], [1, 2]]}, "differ in length"),
    ({"instances": [[1, 2, "3"]]}, "Expected `float`"),
    ({"instances": [[1, 2, None]]}, "Expected `float`"),
    ({"instances": [[1, 2, True]]}, "Expected `float`"),
    ({"instances": [[1, 2, 1e300]]}, "outside the range of FP32"),
    ({"instances": [{"z": [1, 2, 3]}]}, "names ['z']; the model takes ['x']"),
    ({"instances": [{}]}, "names []; the model takes ['x']"),
    ({"instances": [{"x": [1, 2, 3]}, [1, 2, 3]]}, "Expected `array`"),
    ({"instances": [{"x": [[1, 2, 3]]}]}, "Expected `float`"),
    ({"inputs": {}}, "names []; the model takes ['x']"),
    ({"inputs": {"z": [[1, 2, 3]]}}, "names ['z']"),
    ({"inputs": {"x": [1, 2, 3]}}, "nested 2 deep"),
    ({"inputs": [1, 2, 3]}, "nested 2 deep"),
    (b'{"inputs": {"x": [[NaN, 1]]}}', "the model takes [-1, 3]"),
    (b'{"inputs": {"x": [["NaN", 1]], "z": NaN}}', "names ['x', 'z']"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("body", "message"), BAD_BODIES)
async def test_a_bad_request_is_refused_and_told_why(serve: Any, body: Any, message: str) -> None:
    client = await serve("affine")
    answer = await client.post(PREDICT, body)
    assert answer.status == 400
    assert message in answer.json["error"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"instances": [[1, 2]]}, "the model has 2 inputs; name them in instances: a, b"),
        ({"inputs": [[1, 2]]}, "the model has 2 inputs"),
        ({"instances": [{"a": [1, 2]}]}, "names ['a']; the model takes ['a', 'b']"),
        ({"inputs": {"a": [[1, 2]], "b": [[1, 2]], "c": [[1, 2]]}}, "names ['a', 'b', 'c']"),
        ({"inputs": {"a": [[1, 2]], "b": [[1, 2], [3, 4], [5, 6]] * 2, "b2": 1}}, "names"),
    ],
)
async def test_named_inputs_must_be_complete(serve: Any, body: Any, message: str) -> None:
    client = await serve("pair")
    answer = await client.post(PREDICT, body)
    assert (answer.status, message in answer.json["error"]) == (400, True)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"instances": [{"b64": "%%%"}]}, "not base64 of UTF-8"),
        ({"instances": [{"b64": "/w=="}]}, "not base64 of UTF-8"),
        ({"instances": [{"b64": "YQ==", "more": 1}]}, "names"),
        ({"instances": [["a"]]}, "nested 1 deep"),
        ({"instances": [1]}, "nested 1 deep"),
    ],
)
async def test_strings_must_be_text(serve: Any, body: Any, message: str) -> None:
    client = await serve("text")
    answer = await client.post(PREDICT, body)
    assert (answer.status, message in answer.json["error"]) == (400, True)


@pytest.mark.anyio
async def test_an_output_without_rows_needs_the_columnar_format(serve: Any) -> None:
    client = await serve("total")
    rows = await client.post(PREDICT, {"instances": [[1, 2, 3]]})
    assert (rows.status, "columnar" in rows.json["error"]) == (400, True)
    assert (await client.post(PREDICT, {"inputs": [[1, 2, 3]]})).json == {"outputs": 6.0}


@pytest.mark.anyio
async def test_versions_are_reached_by_number_and_by_label(serve: Any) -> None:
    client = await serve("affine", "triple")
    seen = {}
    for path in ("", "/versions/1", "/versions/2", "/labels/label-affine", "/versions/triple"):
        answer = await client.post(f"/v1/models/m{path}:predict", {"instances": [[1, 1, 1]]})
        seen[path] = answer.json["predictions"][0][0]
    assert seen == {
        "": 4.0,
        "/versions/1": 3.0,
        "/versions/2": 4.0,
        "/labels/label-affine": 3.0,
        "/versions/triple": 4.0,
    }


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1", 404),
        ("GET", "/v1/models", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/models/m/versions/9", 404),
        ("GET", "/v1/models/m/versions/9/metadata", 404),
        ("GET", "/v1/models/m/labels/none", 404),
        ("GET", "/v1/models/m/other/1", 404),
        ("POST", "/v1/models/other:predict", 404),
        ("POST", "/v1/models/m/versions/9:predict", 404),
        ("POST", "/v1/models/m/versions/:predict", 404),
        ("POST", "/v1/models/m/labels/none:predict", 404),
        ("POST", "/v1/models/m:classify", 404),
        ("POST", "/v1/models/m:regress", 404),
        ("POST", "/v1/models/:predict", 404),
        ("GET", PREDICT, 405),
        ("POST", "/v1/models/m", 405),
        ("POST", "/v1/models/m/metadata", 405),
    ],
)
async def test_other_paths_and_methods_are_refused_as_json(serve: Any, method: str, path: str, status: int) -> None:
    client = await serve("affine")
    answer = await client.ask(method, path, {"instances": [[1, 2, 3]]})
    assert answer.status == status
    assert answer.json["error"]


@pytest.mark.anyio
async def test_the_status_is_spelled_as_tensorflow_serving_does(serve: Any) -> None:
    client = await serve("affine", "triple")
    ok = {"error_code": "OK", "error_message": ""}
    one, two = ({"version": number, "state": "AVAILABLE", "status": ok} for number in "12")
    for path, expected in {
        "": [two, one],
        "/versions/1": [one],
        "/versions/affine": [one],
        "/labels/label-triple": [two],
    }.items():
        assert (await client.get(f"/v1/models/m{path}")).json == {"model_version_status": expected}


@pytest.mark.anyio
async def test_the_status_of_a_failed_version_says_why(serve: Any) -> None:
    client = await serve("missing", "affine")
    status = (await client.get("/v1/models/m/versions/1")).json["model_version_status"][0]
    assert (status["state"], status["status"]["error_code"]) == ("END", "NOT_FOUND")
    assert "no model folder" in status["status"]["error_message"]


@pytest.mark.anyio
async def test_the_metadata_lists_the_signatures(serve: Any) -> None:
    client = await serve("classifier")
    metadata = (await client.get("/v1/models/m/versions/1/metadata")).json
    assert metadata["model_spec"] == {"name": "m", "signature_name": "", "version": "1"}
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert {name: list(signature["outputs"]) for name, signature in signatures.items()} == {
        "serving_default": ["label"],
        "all_outputs": ["label", "probabilities"],
        "label": ["label"],
        "probabilities": ["probabilities"],
    }
    assert signatures["serving_default"]["inputs"]["x"] == {
        "dtype": "DT_FLOAT",
        "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "3", "name": ""}], "unknown_rank": False},
        "name": "x:0",
    }
    assert (await client.get("/v1/models/m/metadata")).json == metadata
    assert (await client.get("/v1/models/m/labels/label-classifier/metadata")).json == metadata
