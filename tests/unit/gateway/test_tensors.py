"""Rows are taken out of tensors and put into others, in either spelling, and nothing is lost on the way."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.gateway import v1, v2
from modelwright.gateway.tensors import Spec, Tensor, from_nested
from modelwright.http.asgi import RequestError

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
NUMBERS = ["FP16", "FP32", "FP64", "INT8", "INT64", "UINT8", "UINT64", "BOOL"]


def filled(shape: tuple[int, ...], datatype: str = "INT64") -> tuple[Tensor, Any]:
    array = np.arange(math.prod(shape)).reshape(shape)
    return Tensor(name="t", datatype=datatype, shape=shape, flat=array.ravel().tolist()), array


@given(shapes)
def test_lists_in_lists_and_back(shape: tuple[int, ...]) -> None:
    tensor, array = filled(shape)
    assert tensor.nested() == array.tolist()
    again = from_nested("t", "INT64", tensor.nested())
    assert (again.shape, again.values) == (shape, tensor.values)


@given(shapes, st.data())
def test_rows_are_taken_as_numpy_takes_them(shape: tuple[int, ...], data: st.DataObject) -> None:
    tensor, array = filled(shape)
    rows = data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=6))
    for form in (tensor, Tensor(name="t", datatype="INT64", shape=shape, blob=tensor.binary)):
        assert form.take(rows).nested() == array[rows].tolist()


@given(shapes, st.data())
def test_rows_are_put_as_numpy_puts_them(shape: tuple[int, ...], data: st.DataObject) -> None:
    tensor, array = filled(shape)
    rows = data.draw(st.lists(st.integers(0, shape[0] - 1), unique=True))
    others = -array[rows]
    array[rows] = others
    put = tensor.put(rows, Tensor(name="t", datatype="INT64", shape=others.shape, flat=others.ravel().tolist()))
    assert put.nested() == array.tolist()


@pytest.mark.parametrize("datatype", NUMBERS)
def test_bytes_are_those_of_numpy(datatype: str) -> None:
    kinds = {"FP": "f", "IN": "i", "UI": "u", "BO": "b"}
    bits = int("".join(filter(str.isdigit, datatype)) or 8)
    array = np.array([0, 1, 1, 0], dtype=f"<{kinds[datatype[:2]]}{bits // 8}" if datatype != "BOOL" else np.bool_)
    tensor = Tensor(name="t", datatype=datatype, shape=(4,), flat=array.tolist())
    assert tensor.binary == array.tobytes()
    assert Tensor(name="t", datatype=datatype, shape=(4,), blob=array.tobytes()).values == array.tolist()


@given(st.lists(st.text(max_size=8)))
def test_strings_in_bytes_and_back(texts: list[str]) -> None:
    tensor = Tensor(name="t", datatype="BYTES", shape=(len(texts),), flat=list(texts))
    assert Tensor(name="t", datatype="BYTES", shape=(len(texts),), blob=tensor.binary).values == texts


def test_strings_that_are_no_text_stay_what_they_are() -> None:
    blob = b"\x02\x00\x00\x00\xff\xfe"
    tensor = Tensor(name="t", datatype="BYTES", shape=(1,), blob=blob)
    assert tensor.values == [{"b64": "//4="}]
    assert Tensor(name="t", datatype="BYTES", shape=(1,), flat=tensor.values).binary == blob


@pytest.mark.parametrize(
    ("shape", "flat", "blob"),
    [
        ((2, 2), [1, 2, 3], None),
        ((-1,), [1], None),
        ((2,), None, b"1234567"),
        ((2,), None, b""),
    ],
)
def test_a_shape_that_does_not_fit_is_noticed(shape: tuple[int, ...], flat: Any, blob: Any) -> None:
    with pytest.raises(ValueError, match="'t'"):
        Tensor(name="t", datatype="INT64", shape=shape, flat=flat, blob=blob).check()


@pytest.mark.parametrize("blob", [b"\x01", b"\x05\x00\x00\x00ab", b"\xff\xff\xff\xff"])
def test_strings_that_are_cut_off_are_noticed(blob: bytes) -> None:
    with pytest.raises(ValueError, match="string"):
        Tensor(name="t", datatype="BYTES", shape=(1,), blob=blob).check()


@pytest.mark.parametrize("value", [[[1], [1, 2]], [[1], 1], [1, [1]], [[[1]], [1]], [[], [1]]])
def test_ragged_lists_are_no_tensor(value: Any) -> None:
    with pytest.raises(ValueError, match="differ"):
        from_nested("t", "", value)


def test_lists_may_be_nested_so_deep_and_no_deeper() -> None:
    value: Any = 1
    for _ in range(33):
        value = [value]
    with pytest.raises(ValueError, match="more than 32 deep"):
        from_nested("t", "", value)


@pytest.mark.parametrize(
    ("values", "datatype"),
    [([1, 2], "INT64"), ([1, 2.5], "FP64"), ([True], "BOOL"), (["a"], "BYTES"), ([{"b64": ""}], "BYTES"), ([], "FP64")],
)
def test_values_without_a_data_type_get_one(values: list[Any], datatype: str) -> None:
    assert from_nested("t", "", values).datatype == datatype


def test_values_that_do_not_fit_another_data_type_are_refused() -> None:
    tensor = Tensor(name="t", datatype="INT64", shape=(1,), flat=[300])
    assert tensor.named("u", "INT32").values == [300]
    with pytest.raises(ValueError, match="INT8"):
        tensor.named("u", "INT8")


@pytest.mark.parametrize(
    ("flat", "spec", "good"),
    [
        ([1.0, 2], Spec("t", "FP32", (-1,)), True),
        ([None, 1.0], Spec("t", "FP32", (-1,)), True),
        ([1.0, 2], Spec("t", "FP32", (3,)), False),
        ([1.0, 2], Spec("t", "FP32", (-1, 2)), False),
        ([1.0, 2], Spec("t", "INT64", (-1,)), False),
        ([1, True], Spec("t", "INT64", (-1,)), False),
        (["1", 2], Spec("t", "FP32", (-1,)), False),
        (["1", {"b64": ""}], Spec("t", "BYTES", (-1,)), True),
        ([1, "x"], Spec("t"), True),
    ],
)
def test_values_are_held_against_what_a_model_said_of_them(flat: list[Any], spec: Spec, good: bool) -> None:
    tensor = Tensor(name="t", datatype=spec.datatype, shape=(len(flat),), flat=flat)
    if good:
        tensor.conform(spec)
        assert None not in tensor.values
    else:
        with pytest.raises(ValueError, match="'t'"):
            tensor.conform(spec)


# The bodies of both protocols ---------------------------------------------------------------------------------------


@given(shapes)
def test_a_request_says_the_same_in_both_protocols(shape: tuple[int, ...]) -> None:
    _, array = filled(shape)
    rows = {"instances": array.tolist()}
    columns = {"inputs": {"x": array.tolist()}}
    tensor = {"name": "x", "shape": list(shape), "datatype": "INT64", "data": array.ravel().tolist()}
    requests = (
        v1.Request(json.dumps(rows).encode()),
        v1.Request(json.dumps(columns).encode()),
        v2.Request(json.dumps({"inputs": [tensor]}).encode(), None),
        v2.Request(json.dumps({"inputs": [tensor | {"data": array.tolist()}]}).encode(), None),
    )
    for request in requests:
        (found,) = request.tensors([Spec("x", "INT64", (-1, *shape[1:]))])
        assert (found.name, found.shape, found.values) == ("x", shape, array.ravel().tolist())
        assert request.rows == shape[0]


def test_several_inputs_are_kept_apart() -> None:
    instances = {"instances": [{"a": [1], "b": "x"}, {"a": [2], "b": "y"}]}
    inputs = {"inputs": {"a": [[1], [2]], "b": ["x", "y"]}}
    for body in (instances, inputs):
        request = v1.Request(json.dumps(body).encode())
        found = {tensor.name: tensor for tensor in request.tensors([Spec("a", "FP32"), Spec("b", "BYTES")])}
        assert (found["a"].shape, found["b"].values, request.rows) == ((2, 1), ["x", "y"], 2)
        part = json.loads(request.encode("s", (1,), {"a": "c"}))
        assert part == {"signature_name": "s"} | (
            {"instances": [{"c": [2], "b": "y"}]} if "instances" in body else {"inputs": {"c": [[2]], "b": ["y"]}}
        )


def test_inputs_of_different_lengths_cannot_be_divided() -> None:
    request = v1.Request(b'{"inputs": {"a": [1, 2], "b": [1]}}')
    assert request.rows is None
    assert json.loads(request.encode("s", None, {})) == {"signature_name": "s", "inputs": {"a": [1, 2], "b": [1]}}
    assert v1.Request(b'{"inputs": 7}').rows is None


def test_text_and_bytes_have_their_spelling_in_each_protocol() -> None:
    request = v1.Request(b'{"instances": [{"b64": "aGk="}, {"b64": "/w=="}]}')
    (tensor,) = request.tensors([Spec("s", "BYTES", (-1,))])
    sent = json.loads(v2.encode_tensors([tensor], None).content)
    assert sent["inputs"][0]["data"] == ["hi", {"b64": "/w=="}]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_no_json_stay_what_they_are(number: str) -> None:
    request = v1.Request(f'{{"instances": [[1.5, {number}], [2, 3]]}}'.encode())
    assert request.rows == 2
    assert f"[1.5,{number}]".encode() in request.encode("s", (0,), {}).replace(b" ", b"")
    (answer,) = v1.decode_answer(f'{{"predictions": [[1.5, {number}]]}}'.encode(), [Spec("y", "FP32")], columnar=False)
    assert number.encode() in v1.encode_answer([answer], columnar=False)


def test_a_part_of_a_binary_request_is_binary_too() -> None:
    data = np.arange(6, dtype="<f4")
    tensor = {
        "name": "x",
        "shape": [3, 2],
        "datatype": "FP32",
        "parameters": {"content_type": "np", "binary_data_size": 24},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    request = v2.Request(head + data.tobytes(), str(len(head)))
    part = request.encode([each.take((2, 0)) for each in request.tensors()], ("y",), binary=True)
    again = v2.Request(part.content, str(part.json_bytes))
    assert again.tensors()[0].values == [4.0, 5.0, 0.0, 1.0]
    assert again.wanted == ("y",)
    sent = json.loads(part.content[: part.json_bytes])["inputs"][0]
    assert sent["parameters"] == {"content_type": "np", "binary_data_size": 16}
    plain = request.encode(request.tensors(), None, binary=False)
    assert json.loads(plain.content)["inputs"][0]["data"] == data.tolist()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"instances": 1}', b'{"instances": [1], "inputs": [1]}', b'{"instances": {}}', b"\xff", b"["],
)
def test_what_is_no_predict_request_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError):
        v1.Request(body)
