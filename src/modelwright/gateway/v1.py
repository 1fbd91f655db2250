"""TensorFlow Serving's REST: requests as they come, requests to a model, answers of a model, answers to the client."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modelwright.gateway.describe import DEFAULT_SIGNATURE
from modelwright.gateway.tensors import Spec, Tensor, from_nested
from modelwright.http.asgi import RequestError

_encoder = msgspec.json.Encoder()
_TOKENS = (b"NaN", b"Infinity")


class _Request(msgspec.Struct, gc=False):
    instances: Any = msgspec.UNSET
    inputs: Any = msgspec.UNSET
    signature_name: str | None = None


class _RawRequest(msgspec.Struct, gc=False):
    instances: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    inputs: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    signature_name: str | None = None


class _RawAnswer(msgspec.Struct, gc=False):
    predictions: Any = msgspec.UNSET
    outputs: Any = msgspec.UNSET


_decode_request = msgspec.json.Decoder(_RawRequest).decode
_decode_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_columns = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Request:
    """A predict request: `rows` of it, or None if its tensors differ in their first dimension.

    `columnar` is the format `inputs`, else `instances`. The values stay as they came.
    """

    protocol = "v1"

    def __init__(self, body: bytes) -> None:
        """Raises RequestError for what is not a predict request."""
        self.body = body
        self.size = len(body)
        request = _decoded(body)
        self.signature = request.signature_name or DEFAULT_SIGNATURE
        self.columnar = request.instances is msgspec.UNSET
        if self.columnar == (request.inputs is msgspec.UNSET):
            raise RequestError("give the request's tensors either as 'instances' (rows) or as 'inputs' (columns)")
        self._content = request.inputs if self.columnar else request.instances
        self._rows: list[Any] = []
        self._columns: dict[str, list[Any]] = {}
        self.rows = self._split_columns() if self.columnar else self._split_rows()

    def encode(self, signature: str, rows: Sequence[int] | None, names: Mapping[str, str]) -> bytes:
        """The request for some rows (None: all), with another signature and other names of inputs."""
        head: dict[str, Any] = {"signature_name": signature}
        if self.columnar:
            return _spell(head | {"inputs": self._some_columns(rows, names)})
        return _spell(head | {"instances": [_renamed(row, names) for row in self._some(self._rows, rows)]})

    def tensors(self, specs: Sequence[Spec] | None) -> list[Tensor]:
        """The tensors, named and typed as the model describes them; raises RequestError if they are none."""
        known = {spec.name: spec for spec in specs or ()}
        only = next(iter(known)) if len(known) == 1 else "" if known else "input"
        value = _plain(self._content)
        if not self.columnar:
            value = _columns_of(value, only)
        named = value if isinstance(value, dict) and not (only and value.keys() == {"b64"}) else {only: value}
        try:
            return [_from_json(name, each, known.get(name)) for name, each in named.items()]
        except ValueError as error:
            raise RequestError(f"the request's tensors cannot be read: {error}") from error

    def _split_rows(self) -> int | None:
        self._rows = self._listed(self._content, "instances")
        return len(self._rows)

    def _split_columns(self) -> int | None:
        named = _members(self._content)
        columns = {"": self._content} if named is None or named.keys() == {"b64"} else named
        try:
            self._columns = {name: self._listed(each, "inputs") for name, each in columns.items()}
        except RequestError:
            return None  # a scalar: the model may take it
        counts = {len(column) for column in self._columns.values()}
        return counts.pop() if len(counts) == 1 else None

    def _listed(self, value: Any, where: str) -> list[Any]:
        if isinstance(value, list):
            return value
        try:
            return _decode_rows(value)
        except (msgspec.DecodeError, TypeError) as error:
            raise RequestError(f"{where} is not a list of rows") from error

    def _some(self, values: list[Any], rows: Sequence[int] | None) -> list[Any]:
        return values if rows is None else [values[row] for row in rows]

    def _some_columns(self, rows: Sequence[int] | None, names: Mapping[str, str]) -> Any:
        if rows is None and not names:
            return self._content
        if rows is None:
            named = _members(self._content)
            return self._content if named is None else {names.get(name, name): each for name, each in named.items()}
        found = {names.get(name, name): self._some(column, rows) for name, column in self._columns.items()}
        return found.get("", found)


def _decoded(body: bytes) -> _Request:
    _check_text(body)
    try:
        raw = _decode_request(body)
        return _Request(raw.instances, raw.inputs, raw.signature_name)
    except (msgspec.DecodeError, RecursionError) as error:
        refused = RequestError(f"the body is not a predict request: {error}")
        if not any(token in body for token in _TOKENS):
            raise refused from error
    try:  # the tokens NaN and Infinity are not JSON, but TensorFlow Serving takes them
        value = json.loads(body)
        _encoder.encode(value)  # half a surrogate pair is a string that nobody could be sent
        return msgspec.convert(value, _Request)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise refused from None


def _check_text(body: bytes) -> None:
    """Raises RequestError for what is not UTF-8: what is only cut out of a body is never looked at closely."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is not a predict request: it is not UTF-8: {error.reason}") from None


def _members(value: Any) -> dict[str, Any] | None:
    """The members of a JSON object, or None if it is something else."""
    if isinstance(value, msgspec.Raw):
        return dict(_decode_columns(value)) if bytes(memoryview(value)[:1]) == b"{" else None
    return value if isinstance(value, dict) else None


def _renamed(row: Any, names: Mapping[str, str]) -> Any:
    members = _members(row) if names else None
    if members is None or members.keys() == {"b64"}:
        return row
    return {names.get(name, name): each for name, each in members.items()}


def _plain(value: Any) -> Any:
    try:
        return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
    except RecursionError as error:
        raise RequestError("the request is nested too deep") from error
    except ValueError as error:  # a number that is too large for any data type
        raise RequestError(f"the request's tensors cannot be read: {error}") from error


def _columns_of(rows: Any, only: str) -> Any:
    """The columns of rows that are objects; other rows as they are."""
    if not rows or not isinstance(rows[0], dict) or (only and rows[0].keys() == {"b64"}):
        return rows
    if not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        raise RequestError("the instances name different inputs")
    return {name: [row[name] for row in rows] for name in rows[0]}


def encode_tensors(tensors: Sequence[Tensor], signature: str, *, in_rows: bool) -> bytes:
    """A request from tensors, in rows if they have as many each."""
    head: dict[str, Any] = {"signature_name": signature}
    values = {tensor.name: tensor.nested() for tensor in tensors}
    if len(values) == 1:
        (value,) = values.values()
        return _spell(head | {"instances" if in_rows else "inputs": value})
    if not in_rows:
        return _spell(head | {"inputs": values})
    return _spell(
        head | {"instances": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}
    )


def _from_json(name: str, value: Any, spec: Spec | None) -> Tensor:
    if value == [] and spec is not None and spec.shape:  # no rows: their shape cannot be seen
        return Tensor(name=name, datatype=spec.datatype, shape=(0, *(max(0, size) for size in spec.shape[1:])), flat=[])
    return from_nested(name, spec.datatype if spec else "", value)


# Answers ------------------------------------------------------------------------------------------------------------


def decode_answer(body: bytes, specs: Sequence[Spec] | None, *, columnar: bool) -> list[Tensor]:
    """The tensors of a model's answer to a signature with these outputs; raises ValueError if it is none of that."""
    answer = _decoded_answer(body)
    value = answer.outputs if columnar else answer.predictions
    if value is msgspec.UNSET:
        raise ValueError(f"it has no {'outputs' if columnar else 'predictions'}")
    named = _named_outputs(value, specs, columnar=columnar)
    known = {spec.name: spec for spec in specs or ()}
    return [_tensor(name, each, known.get(name)) for name, each in named.items()]


def _decoded_answer(body: bytes) -> _RawAnswer:
    try:
        return msgspec.json.decode(body, type=_RawAnswer)
    except (msgspec.DecodeError, RecursionError) as error:
        if not any(token in body for token in _TOKENS):
            raise ValueError(f"it is no predict answer: {error}") from error
    try:
        return msgspec.convert(json.loads(body), _RawAnswer)
    except (RecursionError, msgspec.ValidationError) as error:
        raise ValueError(f"it is no predict answer: {error}") from error


def _named_outputs(value: Any, specs: Sequence[Spec] | None, *, columnar: bool) -> dict[str, Any]:
    if specs is not None and len(specs) == 1:
        return {specs[0].name: value}
    if not columnar and value == [] and specs is not None:
        return {spec.name: [] for spec in specs}
    if not columnar:
        value = _answer_columns(value)
    if not isinstance(value, dict):
        if specs is not None:
            raise ValueError(f"it does not name its {len(specs)} outputs")
        return {"predictions": value}
    missing = sorted({spec.name for spec in specs or ()} - value.keys())
    if missing:
        raise ValueError(f"it lacks the output {missing[0]!r}")
    return value


def _answer_columns(rows: Any) -> Any:
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return rows
    if not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        raise ValueError("its rows name different outputs")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _tensor(name: str, value: Any, spec: Spec | None) -> Tensor:
    try:
        return _from_json(name, value, spec)
    except ValueError as error:
        raise ValueError(f"output {name!r} is no tensor: {error}") from None


def encode_answer(tensors: Sequence[Tensor], *, columnar: bool) -> bytes:
    """The answer to the client, in the format of its request."""
    values = {tensor.name: tensor.nested() for tensor in tensors}
    finite = all(tensor.finite() for tensor in tensors)
    if columnar:
        return _spell({"outputs": values if len(values) > 1 else next(iter(values.values()))}, finite=finite)
    if len(values) == 1:
        return _spell({"predictions": next(iter(values.values()))}, finite=finite)
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return _spell({"predictions": rows}, finite=finite)


def _spell(value: Any, *, finite: bool | None = None) -> bytes:
    """JSON; numbers that it cannot spell become the tokens NaN and Infinity."""
    if finite is None:
        finite = _all_finite(value)
    return _encoder.encode(value) if finite else json.dumps(value, separators=(",", ":")).encode()


def _all_finite(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0
    if isinstance(value, list):
        return all(map(_all_finite, value))
    return all(map(_all_finite, value.values())) if isinstance(value, dict) else True
