"""Label and field selectors, as in the API's list and watch calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.refusals import BadRequest

Object = dict[str, Any]
Predicate = Callable[[Object], bool]

# For text without spaces around it: no two neighbours here can take the same characters, so that time stays linear.
_SET = re.compile(r"(?P<key>[A-Za-z0-9._/-]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUALITY = re.compile(r"(?P<key>[A-Za-z0-9._/-]+)\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s!=,()]*)")
_EXISTS = re.compile(r"(?P<not>!?)\s*(?P<key>[A-Za-z0-9._/-]+)")
METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})


class Selector:
    """Which objects a list or watch is about; without requirements, all of them."""

    def __init__(self, predicates: tuple[Predicate, ...]) -> None:
        self._predicates = predicates

    def __bool__(self) -> bool:
        return bool(self._predicates)

    def matches(self, entry: Entry) -> bool:
        if not self._predicates:
            return True
        value = msgspec.json.decode(entry.value)
        return all(predicate(value) for predicate in self._predicates)


def selector(labels: str, fields: str, extra_fields: frozenset[str] = frozenset()) -> Selector:
    """Parse the labelSelector and fieldSelector of a request. Raises BadRequest."""
    predicates = [_label_requirement(part) for part in _requirements(labels) if part.strip()]
    allowed = METADATA_FIELDS | extra_fields
    predicates += [_field_requirement(part, allowed) for part in fields.split(",") if part.strip()]
    return Selector(tuple(predicates))


def _requirements(text: str) -> Iterator[str]:
    """Split at the commas that are not within parentheses."""
    begin, depth = 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


def _label_requirement(text: str) -> Predicate:
    text = text.strip()
    if match := _SET.fullmatch(text):
        values = frozenset(value.strip() for value in match["values"].split(","))
        return _among(match["key"], values, wanted=match["operator"] == "in")
    if match := _EQUALITY.fullmatch(text):
        return _among(match["key"], frozenset({match["value"]}), wanted=match["operator"] != "!=")
    if match := _EXISTS.fullmatch(text):
        key, wanted = match["key"], not match["not"]
        return lambda value: (key in _labels(value)) is wanted
    raise BadRequest(f'unable to parse requirement "{text}" of the label selector', reason="BadRequest")


def _among(key: str, values: frozenset[str], *, wanted: bool) -> Predicate:
    def holds(value: Object) -> bool:
        found = _labels(value).get(key)
        # An absent label satisfies != and notin, and only those.
        return (found in values) is wanted if found is not None else not wanted

    return holds


def _labels(value: Object) -> dict[str, str]:
    labels: dict[str, str] = value.get("metadata", {}).get("labels") or {}
    return labels


def _field_requirement(text: str, allowed: frozenset[str]) -> Predicate:
    match = _EQUALITY.fullmatch(text.strip())
    if match is None:
        raise BadRequest(f'invalid field selector "{text}"; can\'t understand it', reason="BadRequest")
    path, wanted = match["key"], match["value"]
    if path not in allowed:
        known = ", ".join(sorted(allowed))
        raise BadRequest(f'field label not supported: "{path}" (supported: {known})', reason="BadRequest")
    steps = path.split(".")
    return lambda value: (_field(value, steps) == wanted) is (match["operator"] != "!=")


def _field(value: Any, steps: list[str]) -> str:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return "" if value is None else str(value)
