"""A check looks for one fault of a resource and is named for it; a chain of checks stops at the first finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """A fault that only a person mends: reason and message of the Stalled condition."""

    reason: str
    message: str


Check = Callable[[Any, Any], Finding | None]


def first_finding(checks: Iterable[Check], resource: Any, observed: Any) -> Finding | None:
    """What the first check that finds something says."""
    return next((found for check in checks if (found := check(resource, observed)) is not None), None)
