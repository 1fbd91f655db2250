"""What of an object's metadata a client writes, and what stays as the server wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modelwright.api.faults import Fault

Object = dict[str, Any]

KEPT = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""What the server alone writes."""

WRITABLE = ("generateName", "labels", "annotations", "ownerReferences", "finalizers")


def tidy(metadata: Object, kept: Object) -> Object:
    """The metadata to store: what the server keeps from `kept`, what a client may write from `metadata`."""
    stored = {field: kept[field] for field in KEPT if field in kept}
    for field in WRITABLE:
        if metadata.get(field):
            stored[field] = metadata[field]
    return stored


def finalizer_faults(metadata: Object, stored: Object) -> Iterator[Fault]:
    """An object that is being deleted takes no new finalizers."""
    added = [item for item in metadata.get("finalizers", ()) if item not in stored.get("finalizers", ())]
    if added and stored.get("deletionTimestamp"):
        text = "no new finalizers can be added if the object is being deleted, found new finalizers"
        yield Fault("metadata.finalizers", "FieldValueForbidden", f"Forbidden: {text} {added}")
