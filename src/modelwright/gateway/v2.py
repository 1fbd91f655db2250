"""The Open Inference Protocol v2 (REST): requests as they come and as they go on, answers likewise.

With the binary tensor extension a body is JSON, as long as a header says, and the tensors that the JSON announces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from modelwright.gateway.tensors import Spec, Tensor, from_nested, kind_of
from modelwright.http.asgi import RequestError

HEADER = "Inference-Header-Content-Length"
BINARY_TYPE = "application/octet-stream"
_SIZE = "binary_data_size"

_encoder = msgspec.json.Encoder()


class _Tensor(msgspec.Struct, gc=False, omit_defaults=True):
    """`data` is flat or nested, or absent if the tensor is binary."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: Any = msgspec.UNSET
    parameters: dict[str, Any] | None = None


class _RawTensor(msgspec.Struct, gc=False, omit_defaults=True):
    """The same, of which nobody has looked at the data."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | None = None

    def read(self) -> _Tensor:
        """Raises msgspec.DecodeError, RecursionError."""
        data = self.data if isinstance(self.data, msgspec.UnsetType) else msgspec.json.decode(self.data)
        return _Tensor(self.name, self.shape, self.datatype, data, self.parameters)


class Wanted(msgspec.Struct, gc=False, omit_defaults=True):
    """An output that is asked for."""

    name: str
    parameters: dict[str, Any] | None = None


class _Request(msgspec.Struct, gc=False, omit_defaults=True):
    inputs: Sequence[_Tensor] | Sequence[_RawTensor]
    id: str | None = None
    outputs: list[Wanted] | None = None
    parameters: dict[str, Any] | None = None


class _Answer(msgspec.Struct, gc=False, omit_defaults=True):
    model_name: str
    outputs: list[_Tensor]
    model_version: str = ""
    id: str | None = None
    parameters: dict[str, Any] | None = None


class _RawRequest(msgspec.Struct, gc=False, omit_defaults=True):
    inputs: list[_RawTensor]
    id: str | None = None
    outputs: list[Wanted] | None = None
    parameters: dict[str, Any] | None = None


_decode_request = msgspec.json.Decoder(_RawRequest).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode


class Body(msgspec.Struct, frozen=True):
    """A body with the length of its JSON part, or 0 if it is all JSON."""

    content: bytes
    json_bytes: int = 0

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        if not self.json_bytes:
            return (("Content-Type", "application/json"),)
        return (("Content-Type", BINARY_TYPE), (HEADER, str(self.json_bytes)))


def split(content: bytes, header: str | None) -> tuple[bytes, memoryview, Body]:
    """The JSON part, the binary part, and both as a Body; raises ValueError if the header does not fit."""
    if header is None:
        return content, memoryview(b""), Body(content)
    if not (header.isascii() and header.isdigit()) or int(header) > len(content):
        raise ValueError(f"{HEADER} must be a number up to the body's length, {len(content)}")
    size = int(header)
    return content[:size], memoryview(content)[size:], Body(content, size)


class Request:
    """An inference request: `rows` of it, or None if its tensors differ in their first dimension.

    Its data are not looked at until somebody needs them: the model that gets them first judges them.
    """

    protocol = "v2"

    def __init__(self, content: bytes, header: str | None) -> None:
        """Raises RequestError for what is not an inference request."""
        self.size = len(content)
        try:
            head, self._blobs, self.body = split(content, header)
            self._request = _decode_request(head)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise RequestError(f"the body is not an inference request: {error}") from error
        names = [wanted.name for wanted in self._request.outputs or ()]
        if len(set(names)) < len(names):
            raise RequestError("an output is asked for twice")
        self.wanted = tuple(names)
        self.id = self._request.id
        self._tensors: list[Tensor] | None = None
        counts = {tensor.shape[:1] for tensor in self._request.inputs}
        self.rows = next(iter(*counts), None) if len(counts) == 1 else None

    @property
    def uses_binary(self) -> bool:
        """Whether it needs a model that understands the extension."""
        asked = [self._request.parameters, *(wanted.parameters for wanted in self._request.outputs or ())]
        return bool(self.body.json_bytes) or any("binary_data" in key for each in asked for key in each or ())

    def tensors(self, specs: Sequence[Spec] | None = None) -> list[Tensor]:  # noqa: ARG002
        """The tensors; raises RequestError if their data are not what their shapes say."""
        if self._tensors is None:
            try:
                self._tensors = _tensors([tensor.read() for tensor in self._request.inputs], self._blobs)
            except (msgspec.DecodeError, RecursionError, ValueError) as error:
                raise RequestError(f"the request's tensors cannot be read: {error}") from error
        return self._tensors

    def encode(self, tensors: Iterable[Tensor] | None, outputs: Sequence[str] | None, *, binary: bool) -> Body:
        """The request with these tensors in place of its own (None: its own), for these outputs (None: all).

        `binary`: the model understands the extension. Raises RequestError if its tensors have to be read and cannot be.
        """
        wishes = {wanted.name: wanted for wanted in self._request.outputs or ()}
        asked = None if outputs is None else [wishes.get(name, Wanted(name)) for name in outputs]
        parameters = self._request.parameters
        if not binary:
            asked = None if asked is None else [Wanted(wanted.name) for wanted in asked]
            parameters = {key: each for key, each in (parameters or {}).items() if key != "binary_data_output"} or None
        if tensors is None and (binary or not self.body.json_bytes):
            blobs = [bytes(self._blobs)] if self.body.json_bytes else []
            return _body(_Request(self._request.inputs, self.id, asked, parameters), blobs)
        own = self.tensors() if tensors is None else tensors
        inputs, blobs = _announced(own, lambda tensor: binary and tensor.blob is not None)
        for given, sent in zip(self._request.inputs, inputs, strict=True):
            rest = {key: each for key, each in (given.parameters or {}).items() if key != _SIZE}
            sent.parameters = {**rest, **(sent.parameters or {})} or None
        return _body(_Request(inputs, self.id, asked, parameters), blobs)

    def wants_binary(self, name: str) -> bool:
        """Whether the client wants this output as bytes."""
        every = bool((self._request.parameters or {}).get("binary_data_output"))
        for wanted in self._request.outputs or ():
            if wanted.name == name:
                return bool((wanted.parameters or {}).get("binary_data", every))
        return every


def encode_tensors(tensors: Iterable[Tensor], outputs: Sequence[str] | None) -> Body:
    """A request that came in another protocol."""
    inputs, _ = _announced(tensors, lambda _: False)
    return _body(_Request(inputs, None, None if outputs is None else [Wanted(name) for name in outputs]), [])


# Answers ------------------------------------------------------------------------------------------------------------


class Answer(msgspec.Struct):
    """What a model answered."""

    tensors: list[Tensor]
    version: str


def decode_answer(content: bytes, header: str | None) -> Answer:
    """A model's answer; raises ValueError if it is none."""
    try:
        head, blobs, _ = split(content, header)
        answer = _decode_answer(head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is no inference answer: {error}") from error
    return Answer(_tensors(answer.outputs, blobs), answer.model_version)


def encode_answer(
    tensors: Iterable[Tensor], *, name: str, version: str, request_id: str | None, binary: Mapping[str, bool]
) -> Body:
    """The answer to the client; raises ValueError if a value does not fit its data type."""
    outputs, blobs = _announced(tensors, lambda tensor: binary.get(tensor.name, False))
    return _body(_Answer(name, outputs, version, request_id), blobs)


def _tensors(given: Iterable[_Tensor], blobs: memoryview) -> list[Tensor]:
    found: list[Tensor] = []
    for tensor in given:
        size = (tensor.parameters or {}).get(_SIZE)
        if size is None:
            found.append(_from_json(tensor))
        else:
            found.append(_from_blob(tensor, size, blobs))
            blobs = blobs[size:]
        found[-1].check()
    if blobs:
        raise ValueError(f"the body has {len(blobs)} bytes more than its tensors announce")
    if len({tensor.name for tensor in found}) < len(found):
        raise ValueError("a tensor is given twice")
    return found


def _from_json(tensor: _Tensor) -> Tensor:
    if not isinstance(tensor.data, list):
        raise ValueError(f"{tensor.name!r} has neither data nor a {_SIZE}")
    flat = tensor.data
    if flat and isinstance(flat[0], list):
        nested = from_nested(tensor.name, tensor.datatype, flat)
        if nested.shape != tensor.shape:
            raise ValueError(f"{tensor.name!r} of shape {list(tensor.shape)} has data of shape {list(nested.shape)}")
        flat = nested.values
    return Tensor(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape, flat=flat)


def _from_blob(tensor: _Tensor, size: object, blobs: memoryview) -> Tensor:
    if tensor.data is not msgspec.UNSET:
        raise ValueError(f"{tensor.name!r} has both data and a {_SIZE}")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(blobs):
        raise ValueError(f"{tensor.name!r} announces {size} bytes; {len(blobs)} are left in the body")
    return Tensor(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape, blob=blobs[:size])


def _announced(tensors: Iterable[Tensor], binary: Any) -> tuple[list[_Tensor], list[bytes]]:
    """The tensors as JSON has them, and those that follow it."""
    announced, blobs = [], []
    for tensor in tensors:
        if binary(tensor):
            blobs.append(tensor.binary)
            announced.append(_Tensor(tensor.name, tensor.shape, tensor.datatype, parameters={_SIZE: len(blobs[-1])}))
        else:
            announced.append(_Tensor(tensor.name, tensor.shape, tensor.datatype, _in_json(tensor)))
    return announced, blobs


def _in_json(tensor: Tensor) -> list[Any]:
    """Values as this protocol's JSON has them: strings are plain where they can be."""
    if kind_of(tensor.datatype) != "string":
        return tensor.values
    return [_text(value) for value in tensor.values]


def _text(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    import base64

    try:
        return base64.b64decode(value["b64"], validate=True).decode()
    except (KeyError, TypeError, ValueError):
        return value


def _body(message: _Request | _Answer, blobs: list[bytes]) -> Body:
    head = _encoder.encode(message)
    return Body(b"".join((head, *blobs)), len(head)) if blobs else Body(head)
