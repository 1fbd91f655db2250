"""Tensors and their spelling in JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelwright.http.asgi import RequestError
from modelwright.serve import v2
from modelwright.serve.tensors import DATATYPES, TensorSpec, datatype_of, depth_of, parse, to_array, to_python

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)
NUMERIC = sorted(set(DATATYPES) - {"BYTES"})


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, Any]:
    """A data type and an array of it that JSON can spell."""
    name = draw(st.sampled_from(sorted(DATATYPES)))
    if name == "BYTES":
        return name, draw(hnp.arrays(object, SHAPES, elements=st.text(max_size=5), fill=st.nothing()))
    elements = {"allow_nan": False, "allow_infinity": False} if name.startswith("FP") else {}
    return name, draw(hnp.arrays(DATATYPES[name].dtype, SHAPES, elements=elements))


@settings(max_examples=150, deadline=None)
@given(tensors(), st.booleans())
def test_a_tensor_survives_the_way_through_json_flat_or_nested(case: tuple[str, Any], flat: bool) -> None:
    datatype, array = case
    data = to_python(array.reshape(-1) if flat else array)
    body = msgspec.json.encode(
        {"inputs": [{"name": "x", "shape": array.shape, "datatype": datatype_of(array), "data": data}]}
    )
    specs = {"x": TensorSpec("x", datatype, (-1,) * array.ndim)}
    nested_empty = not flat and array.ndim > 1 and array.size == 0
    if nested_empty and msgspec.json.decode(body)["inputs"][0]["data"] and array.shape[1:] != array.shape[-1:]:
        return  # an empty nest may not show its depth; the flat form does
    back = v2.request_inputs(v2.decode_request(body), specs)["x"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()


@pytest.mark.parametrize("name", NUMERIC)
def test_the_name_of_a_data_type_is_found_from_the_array(name: str) -> None:
    assert datatype_of(np.zeros(1, DATATYPES[name].dtype)) == name


def test_strings_of_any_kind_are_bytes() -> None:
    for dtype in ("U3", "S3", object):
        assert datatype_of(np.array(["abc"], dtype)) == "BYTES"
    with pytest.raises(TypeError, match="complex64"):
        datatype_of(np.zeros(1, np.complex64))


@pytest.mark.parametrize(
    ("datatype", "value", "message"),
    [
        ("INT8", [128], "outside the range of INT8"),
        ("UINT8", [-1], "outside the range of UINT8"),
        ("UINT64", [2**64], "outside the range of UINT64"),
        ("INT64", [2**63], "outside the range of INT64"),
        ("FP16", [70000.0], "outside the range of FP16"),
        ("FP32", [-1e39], "outside the range of FP32"),
        ("INT32", [1.5], "Expected `int`"),
        ("INT32", [1.0], "Expected `int`"),
        ("INT32", [True], "Expected `int`"),
        ("BOOL", [1], "Expected `bool`"),
        ("BOOL", ["true"], "Expected `bool`"),
        ("BYTES", [1], "Expected `str"),
        ("BYTES", [None], "Expected `str"),
        ("FP64", ["1"], "Expected `float`"),
    ],
)
def test_what_does_not_fit_the_data_type_is_refused(datatype: str, value: list[Any], message: str) -> None:
    for given_value in (msgspec.Raw(msgspec.json.encode(value)), value):
        with pytest.raises(RequestError, match=message):
            to_array(parse(given_value, DATATYPES[datatype], 1, "data"), DATATYPES[datatype], "data")


def test_ragged_strings_are_refused() -> None:
    with pytest.raises(RequestError, match="differ in length"):
        to_array([["a"], ["b", "c"]], DATATYPES["BYTES"], "data")


def test_bytes_that_are_no_text_are_given_in_base64() -> None:
    assert to_python(np.array([b"\xff", b"a", "b"], object)) == [{"b64": "/w=="}, "a", "b"]


@pytest.mark.parametrize(("text", "depth"), [("1", 0), (" [ [ 1", 2), ("[]", 1), ('"["', 0), ("[[[", 3), ("", 0)])
def test_the_depth_is_read_from_the_brackets(text: str, depth: int) -> None:
    assert depth_of(msgspec.Raw(text.encode())) == depth


def test_a_nest_that_is_too_deep_is_refused() -> None:
    with pytest.raises(RequestError, match="more than 32 deep"):
        parse([], DATATYPES["FP32"], 33, "data")
