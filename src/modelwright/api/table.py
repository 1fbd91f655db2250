"""Rows for people: what `kubectl get` prints of an object, as kube-apiserver renders it for CRDs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from modelwright.api.crd import printed_columns
from modelwright.api.kind import Column, Kind

_STEP = re.compile(r"""\.(?P<field>[A-Za-z0-9_-]+)|\[\?\(@\.(?P<key>\w+)=="(?P<value>[^"]*)"\)\]""")

_NAME: dict[str, Any] = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "The object's name, unique in its namespace.",
    "priority": 0,
}


def table_columns(kind: Kind) -> list[dict[str, Any]]:
    """The columnDefinitions of a meta/v1 Table: name, columns, age, and those with priority 1 for `-o wide`."""
    return [_NAME, *(_definition(column) for column in printed_columns(kind))]


def table_row(kind: Kind, resource: dict[str, Any], now: datetime) -> list[Any]:
    """The cells of an object, in the order of `table_columns`; None where there is nothing. Dates become ages."""
    name = resource.get("metadata", {}).get("name", "")
    return [name, *(_cell(column, resource, now) for column in printed_columns(kind))]


def look_up(path: str, value: Any) -> Any:
    """What a simple JSONPath finds, such as `.status.conditions[?(@.type=="Ready")].status`; None if nothing."""
    for step in _STEP.finditer(path):
        if step["field"]:
            value = value.get(step["field"]) if isinstance(value, dict) else None
        else:
            value = _selected(value, step["key"], step["value"])
    return value


def age(since: datetime, now: datetime) -> str:
    """How long ago, in two units at most, as kubectl writes ages: 30s, 5m12s, 3h, 2d4h, 300d."""
    seconds = int((now - since) / timedelta(seconds=1))
    if seconds < -1:
        return "<invalid>"
    return _duration(max(seconds, 0))


def _selected(value: Any, key: str, wanted: str) -> Any:
    items = value if isinstance(value, list) else []
    return next((item for item in items if isinstance(item, dict) and item.get(key) == wanted), None)


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": "",
        "description": column.description,
        "priority": column.priority,
    }


def _cell(column: Column, resource: dict[str, Any], now: datetime) -> Any:
    value = look_up(column.path, resource)
    if column.type != "date":
        return value
    return _age_of(value, now)


def _age_of(value: Any, now: datetime) -> str:
    try:
        since = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return "<unknown>"
    return age(since if since.tzinfo else since.replace(tzinfo=UTC), now)


def _duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    return _long_duration(days)


def _long_duration(days: int) -> str:
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    return _pair(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _pair(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first}{first_unit}{second}{second_unit}" if second else f"{first}{first_unit}"
