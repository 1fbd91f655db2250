"""Patches of JSON documents: RFC 7386 (merge) and RFC 6902 (operations)."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from modelwright.adapters.embedded.refusals import BadRequest
from modelwright.ports.errors import Invalid

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024


def merge(target: Any, patch: Any) -> Any:
    """The target with a JSON merge patch applied; null removes a member."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply_operations(document: Any, operations: Any) -> Any:
    """The document with a JSON patch applied, all operations or none.

    Raises BadRequest (no JSON patch), Invalid (an operation does not fit the document, or a test fails).
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise BadRequest("a JSON patch is a list of operations", reason="BadRequest")
    if len(operations) > MAX_OPERATIONS:
        raise BadRequest(f"a JSON patch has at most {MAX_OPERATIONS} operations", reason="BadRequest")
    document = copy.deepcopy(document)
    copied = 0
    for operation in operations:
        document = _apply(document, operation)
        if operation.get("op") == "copy":
            copied += len(msgspec.json.encode(_get(document, _pointer(operation, "from"))))
        if copied > MAX_COPIED_BYTES:
            raise Invalid(f"the JSON patch copies more than {MAX_COPIED_BYTES} bytes", reason="Invalid")
    return document


def _apply(document: Any, operation: dict[str, Any]) -> Any:
    name, path = operation.get("op"), _pointer(operation, "path")
    match name:
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            return _add(_remove(document, path)[0], path, _value(operation)) if path else _value(operation)
        case "move":
            source = _pointer(operation, "from")
            if path[: len(source)] == source and path != source:
                raise _misfit(path, "a value cannot be moved into itself")
            rest, value = _remove(document, source)
            return _add(rest, path, value)
        case "copy":
            return _add(document, path, copy.deepcopy(_get(document, _pointer(operation, "from"))))
        case "test":
            if not _equal(_get(document, path), _value(operation)):
                raise _misfit(path, "the test failed")
            return document
    raise BadRequest(f"unknown operation {name!r} in a JSON patch", reason="BadRequest")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise BadRequest(f"operation {operation.get('op')!r} needs a value", reason="BadRequest")
    return copy.deepcopy(operation["value"])


def _pointer(operation: dict[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise BadRequest(f"operation {operation.get('op')!r} needs {field!r}, a JSON pointer", reason="BadRequest")
    return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]


def _misfit(path: list[str], why: str) -> Invalid:
    return Invalid(f"the JSON patch does not fit the object at /{'/'.join(path)}: {why}", reason="Invalid")


def _get(document: Any, path: list[str]) -> Any:
    for depth, step in enumerate(path):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_position(step, len(document) - 1, path[: depth + 1])]
        else:
            raise _misfit(path[: depth + 1], "there is no such value")
    return document


def _position(step: str, last: int, path: list[str]) -> int:
    if not step.isascii() or not step.isdigit() or (len(step) > 1 and step[0] == "0") or len(step) > 9:
        raise _misfit(path, "that is no index of a list")
    if int(step) > last:
        raise _misfit(path, "the list is shorter")
    return int(step)


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, step = _get(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        parent[step] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if step == "-" else _position(step, len(parent), path), value)
    else:
        raise _misfit(path, "its parent is neither an object nor a list")
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        return None, document
    parent, step = _get(document, path[:-1]), path[-1]
    if isinstance(parent, dict) and step in parent:
        return document, parent.pop(step)
    if isinstance(parent, list):
        return document, parent.pop(_position(step, len(parent) - 1, path))
    raise _misfit(path, "there is no such value")


def _equal(one: Any, other: Any) -> bool:
    # Python takes true for 1; JSON does not.
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)
