"""As much of Kubernetes' protobuf encoding as `kubectl create namespace` uses: it speaks no JSON.

An object is `k8s\\0` and a runtime.Unknown (1: typeMeta {1: apiVersion, 2: kind}, 2: the object). Of a Namespace only
field 1, ObjectMeta, is read, and of that what a client may write: 1 name, 2 generateName, 11 labels, 12 annotations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelwright.adapters.embedded.refusals import BadRequest, UnsupportedMediaType

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


def decode_namespace(body: bytes) -> dict[str, Any]:
    """The Namespace in a body. Raises BadRequest (no protobuf), UnsupportedMediaType (another kind)."""
    if not body.startswith(_MAGIC):
        raise _broken("it does not begin as Kubernetes' protobuf does")
    envelope = dict(_fields(body[len(_MAGIC) :]))
    type_meta = dict(_fields(envelope.get(1, b"")))
    api_version, kind = (_text(type_meta.get(number, b"")) for number in (1, 2))
    if (api_version, kind) != ("v1", "Namespace"):
        text = f"{kind} cannot be sent as protobuf to the embedded server: send application/json"
        raise UnsupportedMediaType(text, reason="UnsupportedMediaType")
    metadata = next((value for number, value in _fields(envelope.get(2, b"")) if number == 1), b"")
    return {"apiVersion": api_version, "kind": kind, "metadata": _metadata(metadata)}


def _metadata(body: bytes) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for number, value in _fields(body):
        if number in (1, 2) and value:
            metadata["name" if number == 1 else "generateName"] = _text(value)
        elif number in (11, 12):
            pair = dict(_fields(value))
            entries = metadata.setdefault("labels" if number == 11 else "annotations", {})
            entries[_text(pair.get(1, b""))] = _text(pair.get(2, b""))
    return metadata


def _fields(body: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; numbers are passed over."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        wire = tag & 7
        if wire == _VARINT:
            _, at = _varint(body, at)
            continue
        if wire == _BYTES:
            length, at = _varint(body, at)
        elif wire in _FIXED:
            length = _FIXED[wire]
        else:
            raise _broken(f"wire type {wire}")
        if at + length > len(body):
            raise _broken("it ends too early")
        if wire == _BYTES:
            yield tag >> 3, body[at : at + length]
        at += length


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(body):
            raise _broken("it ends too early")
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _broken("a number is too long")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _broken("a text is not UTF-8") from None


def _broken(why: str) -> BadRequest:
    return BadRequest(f"the body is no valid protobuf: {why}", reason="BadRequest")
