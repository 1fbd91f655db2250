"""Tensors and their spelling in JSON: the data types of the Open Inference Protocol v2.

JSON numbers are decoded by type: a string, a boolean or null is never taken for a number,
a fraction never for an integer, and what does not fit the data type is refused.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from modelwright.http.asgi import RequestError

Array = npt.NDArray[Any]
MAX_RANK = 32


class Binary(msgspec.Struct, forbid_unknown_fields=True):
    """A string spelled in base64, as TensorFlow Serving has it: `{"b64": "..."}`."""

    b64: str


class Datatype(NamedTuple):
    """A data type: its name, numpy's type, and the Python type of its elements in JSON.

    `text`: strings must be UTF-8, else they may be any bytes.
    """

    name: str
    dtype: np.dtype[Any]
    element: Any
    text: bool = True


def _table() -> dict[str, Datatype]:
    rows: list[tuple[str, Any, Any]] = [("BOOL", np.bool_, bool), ("BYTES", np.object_, str | Binary)]
    rows += [(f"FP{bits}", f"float{bits}", float) for bits in (16, 32, 64)]
    rows += [(f"INT{bits}", f"int{bits}", int) for bits in (8, 16, 32, 64)]
    rows += [(f"UINT{bits}", f"uint{bits}", int) for bits in (8, 16, 32, 64)]
    return {name: Datatype(name, np.dtype(dtype), element) for name, dtype, element in rows}


DATATYPES = _table()
_ANY_BYTES = DATATYPES["BYTES"]._replace(text=False)
_NAMES = {datatype.dtype: name for name, datatype in DATATYPES.items()}


class TensorSpec(msgspec.Struct, frozen=True):
    """A tensor that a model takes or gives; -1 is a dimension of any size, an empty shape is any shape.

    `accepts` names further data types that the model takes for it; `binary` strings need not be UTF-8.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    accepts: frozenset[str] = frozenset()
    binary: bool = False

    def type_of(self, datatype: str = "") -> Datatype:
        """How the elements of a tensor that is given for it are read; `datatype` is one that it takes."""
        name = datatype or self.datatype
        return _ANY_BYTES if self.binary and name == "BYTES" else DATATYPES[name]

    def check(self, shape: tuple[int, ...], name: str = "") -> None:
        """Raises RequestError if an array of this shape does not fit."""
        if self.shape and (
            len(shape) != len(self.shape)
            or any(want not in (-1, have) for want, have in zip(self.shape, shape, strict=True))
        ):
            kind = name or f"input {self.name!r}"
            raise RequestError(f"{kind} has shape {list(shape)}; the model takes {list(self.shape)} (-1: any size)")


def datatype_of(array: Array) -> str:
    """The name of an array's data type; raises TypeError if the protocol has none for it."""
    name = _NAMES.get(array.dtype)
    if name is None:
        if array.dtype.kind in "US":
            return "BYTES"
        raise TypeError(f"numpy's {array.dtype} has no data type in the Open Inference Protocol")
    return name


def to_python(array: Array, *, as_base64: bool = False) -> Any:
    """The array as nested lists of what JSON can spell; bytes become text (base64 if asked for, or not UTF-8)."""
    if array.dtype.kind not in "OSU":
        return array.tolist()
    spell = _base64 if as_base64 else _spell
    return np.vectorize(spell, otypes=[object])(array).tolist() if array.size else array.tolist()


def _spell(value: Any) -> Any:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _base64(value)


def _base64(value: Any) -> dict[str, str]:
    content = value if isinstance(value, bytes) else str(value).encode()
    return {"b64": base64.b64encode(content).decode()}


def depth_of(raw: msgspec.Raw) -> int:
    """How many lists are nested around the first element of a JSON value."""
    depth = 0
    for byte in memoryview(raw):
        if byte == 0x5B:
            depth += 1
        elif byte not in b" \t\r\n":
            break
    return depth


@lru_cache(maxsize=512)
def _nested(element: Any, depth: int) -> Any:
    return list[_nested(element, depth - 1)] if depth else element  # type: ignore[misc]


@lru_cache(maxsize=512)
def _decoder(element: Any, depth: int) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_nested(element, depth))


def parse(value: Any, datatype: Datatype, depth: int, where: str) -> Any:
    """`depth` lists around elements of the type, from raw JSON or from an already decoded value."""
    if depth > MAX_RANK:
        raise RequestError(f"{where} is nested more than {MAX_RANK} deep")
    try:
        if isinstance(value, msgspec.Raw):
            return _decoder(datatype.element, depth).decode(value)
        return msgspec.convert(value, _nested(datatype.element, depth))
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"{where} is not {datatype.name} data nested {depth} deep: {error}") from error


def to_array(values: Any, datatype: Datatype, where: str) -> Array:
    """Nested lists as an array; raises RequestError if they are ragged or do not fit the data type."""
    if datatype.name == "BYTES":
        return _strings(values, datatype, where)
    try:
        if datatype.name in ("FP16", "FP32"):
            with np.errstate(over="raise"):
                return np.array(values, dtype=datatype.dtype)
        return np.array(values, dtype=datatype.dtype)
    except (OverflowError, FloatingPointError) as error:
        raise RequestError(f"{where} has a number outside the range of {datatype.name}") from error
    except ValueError as error:
        raise RequestError(f"{where} is not a full tensor: its rows differ in length or depth") from error


def _strings(values: Any, datatype: Datatype, where: str) -> Array:
    plain = _plain(values, datatype, where)
    try:
        array = np.array(plain, dtype=object)
        if array.size and not all(isinstance(item, str | bytes) for item in array.flat):
            raise ValueError("ragged")
    except ValueError as error:
        raise RequestError(f"{where} is not a full tensor: its rows differ in length or depth") from error
    return array


def _plain(values: Any, datatype: Datatype, where: str) -> Any:
    if isinstance(values, list):
        return [_plain(item, datatype, where) for item in values]
    if isinstance(values, str):
        return values
    try:
        content = base64.b64decode(values.b64, validate=True)
        return content.decode() if datatype.text else content
    except ValueError as error:
        wanted = "base64 of UTF-8 text" if datatype.text else "base64"
        raise RequestError(f"{where} has a b64 value that is not {wanted}") from error
