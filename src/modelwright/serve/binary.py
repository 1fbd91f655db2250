"""The binary tensor data extension of the Open Inference Protocol v2.

The JSON part comes first; a header says how long it is. The tensors that it announces with `binary_data_size` follow
in their order: elements in row-major order, little endian; a string as its length in four bytes and its bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from math import prod

import numpy as np

from modelwright.http.asgi import RequestError
from modelwright.serve.tensors import Array, Datatype

HEADER = b"inference-header-content-length"
_LENGTH = struct.Struct("<I")


def split(body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, memoryview]:
    """The JSON part and the tensors behind it; raises RequestError if the header does not fit the body."""
    value = next((value for name, value in headers if name == HEADER), None)
    if value is None:
        return body, memoryview(b"")
    if not value.isdigit() or int(value) > len(body):
        raise RequestError(f"Inference-Header-Content-Length must be a number up to the body's length, {len(body)}")
    return body[: int(value)], memoryview(body)[int(value) :]


class Reader:
    """Takes one tensor after the other."""

    def __init__(self, tensors: memoryview) -> None:
        self._rest = tensors

    def take(self, size: object, datatype: Datatype, shape: tuple[int, ...], where: str) -> Array:
        """The next `size` bytes as a tensor; raises RequestError if they are not there or do not fit."""
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(self._rest):
            raise RequestError(
                f"{where} announces binary_data_size {size}; {len(self._rest)} bytes are left in the body"
            )
        data, self._rest = self._rest[:size], self._rest[size:]
        if datatype.name == "BYTES":
            return _strings(data, datatype, shape, where)
        wanted = prod(shape) * datatype.dtype.itemsize
        if size != wanted:
            raise RequestError(f"{where} of shape {list(shape)} needs {wanted} bytes; binary_data_size is {size}")
        if datatype.name == "BOOL":
            return np.frombuffer(data, np.uint8).astype(np.bool_).reshape(shape)
        return np.frombuffer(data, datatype.dtype.newbyteorder("<")).astype(datatype.dtype).reshape(shape)

    def finish(self) -> None:
        """Raises RequestError if bytes are left that no tensor announced."""
        if self._rest:
            raise RequestError(f"the body has {len(self._rest)} bytes more than its tensors announce")


def _strings(data: memoryview, datatype: Datatype, shape: tuple[int, ...], where: str) -> Array:
    items: list[str | bytes] = []
    at = 0
    try:
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + length
            if at > len(data):
                raise ValueError("a string ends behind the tensor")
            item = bytes(data[at - length : at])
            items.append(item.decode() if datatype.text else item)
    except (struct.error, ValueError) as error:
        raise RequestError(f"{where} is not a sequence of lengths and UTF-8 strings: {error}") from error
    if len(items) != prod(shape):
        raise RequestError(f"{where} has {len(items)} strings, not as many as its shape {list(shape)}")
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def to_bytes(array: Array) -> bytes:
    """A tensor as it stands behind the JSON part."""
    if array.dtype.kind in "OSU":
        items = [item if isinstance(item, bytes) else str(item).encode() for item in array.flat]
        return b"".join(_LENGTH.pack(len(item)) + item for item in items)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
