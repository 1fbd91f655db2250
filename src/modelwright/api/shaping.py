"""The shape of an object: nulls and unknown fields go, defaults come in. Compiled once from a structural schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelwright.api.faults import Place
from modelwright.api.schema import Schema

Shaper = Callable[[Any, Place, list[Place]], Any]
"""Takes a value, its place and a list that it adds the places of unknown fields to; gives the value in shape."""


def shaper(schema: Schema) -> Shaper:
    """How values of this schema come into shape; what is of another type is left as it is, for the checks to find."""
    if "properties" in schema:
        return _fields(schema)
    if "additionalProperties" in schema:
        return _map(shaper(schema["additionalProperties"]))
    if "items" in schema:
        return _list(shaper(schema["items"]))
    return _whole if schema.get("type") == "integer" else _same


def _same(value: Any, _place: Place, _unknown: list[Place]) -> Any:
    return value


def _whole(value: Any, _place: Place, _unknown: list[Place]) -> Any:
    """JSON has one kind of number: 1.0 is the integer 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _fields(schema: Schema) -> Shaper:
    fields = {name: shaper(inner) for name, inner in schema["properties"].items()}
    defaults = [(name, inner["default"]) for name, inner in schema["properties"].items() if "default" in inner]

    def shape(value: Any, place: Place, unknown: list[Place]) -> Any:
        if not isinstance(value, dict):
            return value
        result = {}
        for name, inner in value.items():
            field = fields.get(name)
            if field is None:
                unknown.append((place, name))
            elif inner is not None:
                result[name] = field(inner, (place, name), unknown)
        for name, default in defaults:
            result.setdefault(name, default)
        return result

    return shape


def _map(item: Shaper) -> Shaper:
    def shape(value: Any, place: Place, unknown: list[Place]) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: item(inner, (place, key), unknown) for key, inner in value.items() if inner is not None}

    return shape


def _list(item: Shaper) -> Shaper:
    def shape(value: Any, place: Place, unknown: list[Place]) -> Any:
        if not isinstance(value, list):
            return value
        return [item(inner, (place, index), unknown) for index, inner in enumerate(value)]

    return shape
