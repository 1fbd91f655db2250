"""Whether a value keeps to a structural schema: all faults at once. Compiled once into closures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec

from modelwright.api.faults import (
    Fault,
    Place,
    duplicate,
    invalid,
    not_supported,
    required,
    spelled,
    too_long,
    too_many,
    type_name,
    wrong_type,
)
from modelwright.api.patterns import regex
from modelwright.api.schema import Schema

Check = Callable[[Any, Place, list[Fault]], None]
"""Takes a value and its place, and adds the faults that it finds to a list."""

_MOMENT = Annotated[datetime, msgspec.Meta(tz=True)]


def checker(schema: Schema) -> Check:
    """The check of a schema: of the type first, and of limits and inner values only where that is right."""
    if schema.get("x-kubernetes-int-or-string"):
        return _typed(("integer", "string"), _string_limits(schema))
    wanted = schema["type"]
    if "properties" in schema:
        inner = [_fields(schema)]
    elif wanted == "object":
        inner = [_map(schema)] if "additionalProperties" in schema else []
    elif wanted == "array":
        inner = [_list(schema)]
    elif wanted == "string":
        inner = _string_limits(schema)
    else:
        inner = _number_limits(schema)
    return _typed(("integer", "number") if wanted == "number" else (wanted,), inner)


def _typed(wanted: tuple[str, ...], inner: list[Check]) -> Check:
    said = "number" if "number" in wanted else ",".join(wanted)

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if type_name(value) not in wanted:
            faults.append(wrong_type(spelled(place), value, said))
            return
        for each in inner:
            each(value, place, faults)

    return check


def _fields(schema: Schema) -> Check:
    needed: list[str] = schema.get("required", [])
    fields = {name: checker(inner) for name, inner in schema["properties"].items()}

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        faults.extend(required(spelled((place, name))) for name in needed if name not in value)
        for name, inner in value.items():
            fields[name](inner, (place, name), faults)

    return check


def _map(schema: Schema) -> Check:
    limit: int = schema["maxProperties"]
    item = checker(schema["additionalProperties"])

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if len(value) > limit:
            faults.append(too_many(spelled(place), len(value), limit))
            return
        for key, inner in value.items():
            item(inner, (place, key), faults)

    return check


def _list(schema: Schema) -> Check:
    limit: int = schema["maxItems"]
    item = checker(schema["items"])
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    unique = bool(keys) or schema.get("x-kubernetes-list-type") == "set"

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if len(value) > limit:
            faults.append(too_many(spelled(place), len(value), limit))
            return
        before = len(faults)
        for index, inner in enumerate(value):
            item(inner, (place, index), faults)
        if unique and len(faults) == before:
            _unique(value, keys, place, faults)

    return check


def _unique(value: list[Any], keys: list[str], place: Place, faults: list[Fault]) -> None:
    seen: set[Any] = set()
    for index, item in enumerate(value):
        shown = {key: item[key] for key in keys} if keys else item
        identity = tuple(shown.values()) if keys else shown
        if identity in seen:
            faults.append(duplicate(spelled((place, index)), shown))
        seen.add(identity)


def _string_limits(schema: Schema) -> list[Check]:
    limits: list[Check] = []
    if "maxLength" in schema:
        limits.append(_shorter(schema["maxLength"]))
    if "enum" in schema:
        limits.append(_one_of(schema["enum"]))
    if "pattern" in schema:
        limits.append(_matching(schema["pattern"]))
    if schema.get("format") == "date-time":
        limits.append(_moment)
    return limits


def _shorter(limit: int) -> Check:
    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if isinstance(value, str) and len(value) > limit:
            faults.append(too_long(spelled(place), limit))

    return check


def _one_of(words: list[str]) -> Check:
    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if value not in words:
            faults.append(not_supported(spelled(place), value, words))

    return check


def _matching(pattern: str) -> Check:
    compiled = regex(pattern)

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if isinstance(value, str) and not compiled.search(value):
            field = spelled(place)
            faults.append(invalid(field, value, f"{field} in body should match '{pattern}'"))

    return check


def _moment(value: Any, place: Place, faults: list[Fault]) -> None:
    try:
        msgspec.convert(value, _MOMENT)
    except msgspec.ValidationError:
        field = spelled(place)
        faults.append(invalid(field, value, f"{field} in body must be of type date-time: {value!r}"))


def _number_limits(schema: Schema) -> list[Check]:
    limits: list[Check] = [_finite] if schema["type"] == "number" else []
    if "minimum" in schema:
        limits.append(_at_least(schema["minimum"], above=schema.get("exclusiveMinimum", False)))
    if "maximum" in schema:
        limits.append(_at_most(schema["maximum"]))
    return limits


def _finite(value: Any, place: Place, faults: list[Fault]) -> None:
    if value != value or value in (float("inf"), float("-inf")):
        faults.append(invalid(spelled(place), str(value), f"{spelled(place)} in body must be finite"))


def _at_least(limit: float, *, above: bool) -> Check:
    words = "greater than" if above else "greater than or equal to"

    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if value < limit or (above and value == limit):
            field = spelled(place)
            faults.append(invalid(field, value, f"{field} in body should be {words} {limit:g}"))

    return check


def _at_most(limit: float) -> Check:
    def check(value: Any, place: Place, faults: list[Fault]) -> None:
        if value > limit:
            field = spelled(place)
            faults.append(invalid(field, value, f"{field} in body should be less than or equal to {limit:.15g}"))

    return check
