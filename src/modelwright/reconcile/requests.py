"""What annotations ask of a reconciler: to leave an object alone, or to look at it again."""

from __future__ import annotations

from typing import Any

SUSPEND = "modelwright.dev/suspend"
REQUESTED_AT = "modelwright.dev/reconcile-requested-at"
REQUEST_LIMIT = 256


def suspended(resource: Any) -> bool:
    """Whether the object is to be left as it is."""
    return bool(resource.metadata.annotations.get(SUSPEND, "").lower() == "true")


def requested_at(resource: Any) -> str:
    """The request to look again that the annotation carries, as much as a status holds; empty if there is none."""
    return str(resource.metadata.annotations.get(REQUESTED_AT, ""))[:REQUEST_LIMIT]


def requested_again(resource: Any) -> bool:
    """Whether there is a request that the status does not show as handled."""
    request = requested_at(resource)
    return bool(request and request != resource.status.last_handled_reconcile_at)


def first_sight(resource: Any) -> bool:
    """Whether this generation of the spec is seen for the first time: what is to be said once is said now."""
    return bool(resource.status.observed_generation != resource.metadata.generation)
