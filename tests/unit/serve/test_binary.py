"""The binary tensor data extension."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modelwright.http.asgi import RequestError
from modelwright.serve.binary import Reader, to_bytes
from modelwright.serve.tensors import DATATYPES

INFER = "/v2/models/m/infer"
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


async def ask(client: Any, head: dict[str, Any], *blobs: bytes, length: bytes | None = None) -> Any:
    first = json.dumps(head).encode()
    header = (b"inference-header-content-length", length if length is not None else str(len(first)).encode())
    return await client.ask("POST", INFER, first + b"".join(blobs), headers=(header,))


def announced(size: Any, shape: list[int], name: str = "x", datatype: str = "FP32", **rest: Any) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}, **rest}


@pytest.mark.anyio
@pytest.mark.parametrize(
    "wish",
    [{"parameters": {"binary_data_output": True}}, {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]}],
)
async def test_tensors_come_and_go_as_bytes(serve: Any, wish: dict[str, Any]) -> None:
    client = await serve("affine")
    rows = np.arange(6, dtype="<f4").reshape(2, 3)
    answer = await ask(client, {"id": "7", "inputs": [announced(24, [2, 3])], **wish}, rows.tobytes())
    length = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert json.loads(answer.body[:length]) == {
        "model_name": "m",
        "model_version": "affine",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": 24}}],
        "id": "7",
    }
    assert np.frombuffer(answer.body[length:], "<f4").tolist() == (rows * 2 + 1).ravel().tolist()


@pytest.mark.anyio
async def test_json_and_binary_tensors_can_be_mixed(serve: Any) -> None:
    client = await serve("pair")
    inputs = [
        {"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]},
        announced(8, [1, 2], "b"),
    ]
    outputs = [{"name": "product", "parameters": {"binary_data": True}}, {"name": "difference"}]
    answer = await ask(client, {"inputs": inputs, "outputs": outputs}, np.array([3, 4], "<f4").tobytes())
    length = int(answer.headers["inference-header-content-length"])
    head = json.loads(answer.body[:length])
    assert head["outputs"][1]["data"] == [-2.0, -2.0]
    assert np.frombuffer(answer.body[length:], "<f4").tolist() == [3.0, 8.0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tensor", "blob", "length", "message"),
    [
        (announced(12, [1, 3]), b"\0" * 11, None, "11 bytes are left"),
        (announced(12, [1, 3]), b"\0" * 13, None, "1 bytes more"),
        (announced(8, [1, 3]), b"\0" * 8, None, "needs 12 bytes"),
        (announced(-1, [1, 3]), b"", None, "binary_data_size -1"),
        (announced("12", [1, 3]), b"\0" * 12, None, "binary_data_size 12"),
        (announced(None, [1, 3]), b"\0" * 12, None, "neither data nor"),
        (announced(1.5, [1, 3]), b"\0" * 12, None, "binary_data_size 1.5"),
        (announced(12, [1, 3], data=[1, 2, 3]), b"\0" * 12, None, "both data and a binary_data_size"),
        (announced(12, [2**62, 3]), b"\0" * 12, None, "needs"),
        (announced(12, [1, 3]), b"\0" * 12, b"9999", "Inference-Header-Content-Length"),
        (announced(12, [1, 3]), b"\0" * 12, b"-1", "Inference-Header-Content-Length"),
        (announced(12, [1, 3]), b"\0" * 12, b"abc", "Inference-Header-Content-Length"),
        (announced(12, [1, 3]), b"\0" * 12, b"5", "not an inference request"),
        (announced(0, [0, 2]), b"", None, "the model takes"),
    ],
)
async def test_bytes_that_do_not_fit_are_refused(
    serve: Any, tensor: dict[str, Any], blob: bytes, length: bytes | None, message: str
) -> None:
    client = await serve("affine")
    answer = await ask(client, {"inputs": [tensor]}, blob, length=length)
    assert (answer.status, message in answer.json["error"]) == (400, True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x01\0\0", "lengths and UTF-8"),
        (b"\x05\0\0\0a", "ends behind the tensor"),
        (b"\x01\0\0\0\xff", "UTF-8"),
        (struct.pack("<I", 1) + b"a", "has 1 strings"),
    ],
)
def test_broken_strings_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Reader(memoryview(data)).take(len(data), DATATYPES["BYTES"], (2,), "input 's'")


@st.composite
def tensors(draw: st.DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from(sorted(DATATYPES)))
    if name == "BYTES":
        return name, draw(hnp.arrays(object, SHAPES, elements=st.text(max_size=5), fill=st.nothing()))
    return name, draw(hnp.arrays(DATATYPES[name].dtype, SHAPES))


@settings(max_examples=150, deadline=None)
@given(tensors())
def test_a_tensor_survives_the_way_through_bytes(case: tuple[str, Any]) -> None:
    name, array = case
    data = to_bytes(array)
    reader = Reader(memoryview(data))
    back = reader.take(len(data), DATATYPES[name], array.shape, "x")
    reader.finish()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
