"""Tensors as the gateway moves them: flat lists of JSON's values, or the bytes of the binary extension.

Rows are taken out of a tensor and put into another; nothing is computed, so nothing more is needed.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from itertools import chain
from math import isfinite, nan, prod
from typing import Any, Literal

import msgspec

Kind = Literal["float", "int", "bool", "string", "any"]

_CODES = {"BOOL": "?", "FP16": "e", "FP32": "f", "FP64": "d"}
_CODES |= {"INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q"}
_CODES |= {"UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q"}
_LENGTH = struct.Struct("<I")
_TYPES: dict[Kind, set[type]] = {"float": {float, int}, "int": {int}, "bool": {bool}, "string": {str, dict}}
_RAGGED = "its rows differ in length or depth"
MAX_RANK = 32


def kind_of(datatype: str) -> Kind:
    """What the values of a data type of the Open Inference Protocol are in JSON; `any` for one that is not known."""
    if datatype in ("FP16", "FP32", "FP64"):
        return "float"
    if datatype.startswith(("INT", "UINT")) and datatype in _CODES:
        return "int"
    return "bool" if datatype == "BOOL" else "string" if datatype == "BYTES" else "any"


class Spec(msgspec.Struct, frozen=True):
    """A tensor that a model takes or gives; -1 is a dimension of any size, no shape is any shape."""

    name: str
    datatype: str = ""
    shape: tuple[int, ...] | None = None

    @property
    def kind(self) -> Kind:
        return kind_of(self.datatype)


class Tensor(msgspec.Struct, kw_only=True):
    """A tensor with its values in row-major order: `flat`, or `blob` as the binary extension spells them."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    flat: list[Any] | None = None
    blob: bytes | memoryview | None = None

    @property
    def kind(self) -> Kind:
        return kind_of(self.datatype)

    @property
    def rows(self) -> int | None:
        """How many rows; None for a scalar."""
        return self.shape[0] if self.shape else None

    @property
    def width(self) -> int:
        """Values in a row."""
        return prod(self.shape[1:])

    @property
    def values(self) -> list[Any]:
        """The values as JSON has them; raises ValueError if the bytes are none of this data type."""
        if self.flat is None:
            self.flat = _from_blob(self.blob or b"", self.datatype, prod(self.shape))
        return self.flat

    @property
    def binary(self) -> bytes:
        """The values as bytes; raises ValueError if they do not fit the data type."""
        if self.blob is None:
            self.blob = _to_blob(self.values, self.datatype)
        return bytes(self.blob)

    def check(self) -> None:
        """Raises ValueError if there are not as many values as the shape says."""
        if any(size < 0 for size in self.shape):
            raise ValueError(f"{self.name!r} has shape {list(self.shape)}")
        code = _CODES.get(self.datatype)
        if self.flat is None and code:
            have, want = len(self.blob or b""), prod(self.shape) * struct.calcsize(f"<{code}")
        else:
            have, want = len(self.values), prod(self.shape)
        if have != want:
            raise ValueError(f"{self.name!r} of shape {list(self.shape)} has {have} values or bytes, not {want}")

    def conform(self, spec: Spec | None) -> None:
        """Raises ValueError if the values or the shape are not what a model said of them; null is no number."""
        if spec is None:
            return
        wanted = spec.shape
        if wanted is not None and (
            len(wanted) != len(self.shape)
            or any(want not in (-1, have) for want, have in zip(wanted, self.shape, strict=True))
        ):
            raise ValueError(f"{self.name!r} has shape {list(self.shape)}, not {list(wanted)}")
        if self.flat is None:
            return
        types = set(map(type, self.flat))
        if spec.kind == "float" and type(None) in types:
            self.flat = [nan if value is None else value for value in self.flat]
            types.discard(type(None))
        if spec.kind != "any" and not types <= _TYPES[spec.kind]:
            raise ValueError(f"{self.name!r} has values that are not {spec.datatype}")

    def row(self, index: int) -> list[Any]:
        """The values of one row."""
        return self.values[index * self.width : (index + 1) * self.width]

    def take(self, rows: Sequence[int]) -> Tensor:
        """These rows, in this order."""
        shape = (len(rows), *self.shape[1:])
        code = _CODES.get(self.datatype)
        if self.flat is None and self.blob is not None and code:
            size = self.width * struct.calcsize(f"<{code}")
            blob = b"".join(self.blob[row * size : (row + 1) * size] for row in rows)
            return Tensor(name=self.name, datatype=self.datatype, shape=shape, blob=blob)
        flat = list(chain.from_iterable(self.row(row) for row in rows))
        return Tensor(name=self.name, datatype=self.datatype, shape=shape, flat=flat)

    def put(self, rows: Sequence[int], other: Tensor) -> Tensor:
        """This tensor with the rows of another in place of `rows`; raises ValueError if those do not fit."""
        if other.shape != (len(rows), *self.shape[1:]):
            raise ValueError(f"{self.name!r} has rows of shape {list(self.shape[1:])}, not {list(other.shape[1:])}")
        flat, width = list(self.values), self.width
        for at, row in enumerate(rows):
            flat[row * width : (row + 1) * width] = other.row(at)
        return Tensor(name=self.name, datatype=self.datatype, shape=self.shape, flat=flat)

    def reshaped(self, shape: tuple[int, ...]) -> Tensor:
        """The same values in another shape, of as many."""
        return Tensor(name=self.name, datatype=self.datatype, shape=shape, flat=self.values)

    def named(self, name: str, datatype: str) -> Tensor:
        """The same values under another name and data type (empty: the same); raises ValueError if they do not fit."""
        if datatype == self.datatype or not datatype:
            return msgspec.structs.replace(self, name=name)
        renamed = Tensor(name=name, datatype=datatype, shape=self.shape, flat=self.values)
        if renamed.kind == "int":
            _to_blob(renamed.values, datatype)
        return renamed

    def nested(self) -> Any:
        """The values as lists in lists."""
        if 0 in self.shape:
            return _empty(self.shape)
        value: Any = self.values
        for size in self.shape[:0:-1]:
            value = [value[at : at + size] for at in range(0, len(value), size)]
        return value if self.shape else value[0]

    def finite(self) -> bool:
        """Whether JSON can spell all values."""
        if kind_of(self.datatype) not in ("float", "any"):
            return True
        return all(isfinite(value) for value in self.values if isinstance(value, float))


def _empty(shape: tuple[int, ...]) -> Any:
    return [_empty(shape[1:]) for _ in range(shape[0])] if shape else None


def from_nested(name: str, datatype: str, value: Any) -> Tensor:
    """A tensor from lists in lists; raises ValueError if they are ragged."""
    shape: list[int] = []
    inner = value
    while isinstance(inner, list):
        if len(shape) == MAX_RANK:
            raise ValueError(f"it is nested more than {MAX_RANK} deep")
        shape.append(len(inner))
        inner = inner[0] if inner else None
    flat = value if shape else [value]
    for size in shape[1:]:
        if set(map(type, flat)) != {list} or set(map(len, flat)) != {size}:
            raise ValueError(_RAGGED)
        flat = list(chain.from_iterable(flat))
    if list in set(map(type, flat)):
        raise ValueError(_RAGGED)
    return Tensor(name=name, datatype=datatype or _guessed(flat), shape=tuple(shape), flat=flat)


def _guessed(flat: list[Any]) -> str:
    """A data type for values that came without one."""
    if any(isinstance(value, (str, dict)) for value in flat):
        return "BYTES"
    if flat and all(isinstance(value, bool) for value in flat):
        return "BOOL"
    if flat and all(isinstance(value, int) and not isinstance(value, bool) for value in flat):
        return "INT64"
    return "FP64"


def _from_blob(blob: bytes | memoryview, datatype: str, count: int) -> list[Any]:
    if datatype == "BYTES":
        return _strings(bytes(blob))
    code = _CODES.get(datatype)
    if code is None:
        raise ValueError(f"data type {datatype} has no values that JSON could spell")
    try:
        return list(struct.unpack(f"<{count}{code}", blob))
    except struct.error as error:
        raise ValueError(str(error)) from None


def _to_blob(values: list[Any], datatype: str) -> bytes:
    if datatype == "BYTES":
        return b"".join(_LENGTH.pack(len(item)) + item for item in map(_text, values))
    code = _CODES.get(datatype)
    if code is None:
        raise ValueError(f"data type {datatype} has no bytes that are known here")
    if kind_of(datatype) == "float":
        values = [nan if value is None else value for value in values]
    try:
        return struct.pack(f"<{len(values)}{code}", *values)
    except (struct.error, OverflowError, TypeError) as error:
        raise ValueError(f"a value does not fit {datatype}: {error}") from None


def _strings(blob: bytes) -> list[Any]:
    """Strings that each begin with their length in four bytes; what is not UTF-8 becomes base64."""
    found: list[Any] = []
    at = 0
    while at < len(blob):
        if at + 4 > len(blob):
            raise ValueError("a string's length is cut off")
        (length,) = _LENGTH.unpack_from(blob, at)
        at += 4 + length
        if at > len(blob):
            raise ValueError("a string ends behind its tensor")
        found.append(_spelled(blob[at - length : at]))
    return found


def _spelled(item: bytes) -> Any:
    try:
        return item.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(item).decode()}


def _text(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    try:
        return base64.b64decode(item["b64"], validate=True)
    except (TypeError, KeyError, binascii.Error) as error:
        raise ValueError("a value is no string") from error
