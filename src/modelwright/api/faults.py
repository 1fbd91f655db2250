"""What is wrong with an object: faults, and the words in which kube-apiserver says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modelwright.api.kind import Kind

Place = tuple[Any, ...]
"""Where a value is: () is the object itself, (place, "spec") a field in it, (place, 0) an item of a list."""


class Fault(msgspec.Struct, frozen=True):
    """One fault: `type` is the reason of a Kubernetes StatusCause, `message` starts as kube-apiserver's does."""

    field: str
    type: str
    message: str

    def cause(self) -> dict[str, str]:
        """The fault as a Kubernetes StatusCause."""
        return {"reason": self.type, "message": self.message, "field": self.field}


def spelled(place: Place) -> str:
    """A place as a field path, such as `spec.manifest[0].version`."""
    steps: list[str] = []
    while place:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def quoted(value: Any) -> str:
    """A value as it is repeated in a message: shortened if it is long, without control characters."""
    text = _quoted_text(value) if isinstance(value, str) else _as_json(value)
    return text if len(text) <= 256 else f"{text[:253]}..."


_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}


def _quoted_text(text: str) -> str:
    escaped = "".join(char if char.isprintable() and char not in _ESCAPES else _escaped(char) for char in text)
    return f'"{escaped}"'


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _as_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return repr(value)


def invalid(field: str, value: Any, detail: str) -> Fault:
    """A value that breaks a rule."""
    shown = "" if isinstance(value, dict | list) else f"{quoted(value)}: "
    return Fault(field, "FieldValueInvalid", f"Invalid value: {shown}{detail}")


def required(field: str, detail: str = "") -> Fault:
    """A value that is missing."""
    return Fault(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def wrong_type(field: str, value: Any, wanted: str) -> Fault:
    """A value of another type than the schema's."""
    seen = f'"{type_name(value)}"'
    message = f"Invalid value: {seen}: {field or 'the object'} in body must be of type {wanted}: {seen}"
    return Fault(field, "FieldValueTypeInvalid", message)


def too_long(field: str, limit: int) -> Fault:
    """A string that is too long."""
    return Fault(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Fault:
    """A list or map with too many items."""
    return Fault(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")


def duplicate(field: str, value: Any) -> Fault:
    """A second item with the same key, or the same item in a set."""
    return Fault(field, "FieldValueDuplicate", f"Duplicate value: {quoted(value)}")


def not_supported(field: str, value: Any, known: Sequence[str]) -> Fault:
    """A word that is none of those that the schema knows."""
    listed = ", ".join(quoted(word) for word in known)
    return Fault(field, "FieldValueNotSupported", f"Unsupported value: {quoted(value)}: supported values: {listed}")


def type_name(value: Any) -> str:
    """The type of a JSON value, in the words of a schema; an integer beyond 64 bits is a number."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if -(2**63) <= value < 2**63 else "number"
    names: dict[type, str] = {type(None): "null", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def invalid_message(kind: Kind, name: str, faults: Sequence[Fault]) -> str:
    """The message of the Status (422, reason Invalid) that refuses an object."""
    said = [f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults]
    listed = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    return f'{kind.kind}.{kind.group} "{name}" is invalid: {listed}'


def unknown_message(kind: Kind, unknown: Sequence[str]) -> str:
    """The message of the Status (400, reason BadRequest) that refuses unknown fields where these are validated."""
    listed = ", ".join(f'unknown field "{path}"' for path in unknown)
    head = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return f"{head}: strict decoding error: {listed}"
