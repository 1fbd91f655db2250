"""The scale subresource: autoscaling/v1 Scale, read from and written to the paths that a kind names."""

from __future__ import annotations

from typing import Any

import msgspec

from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.refusals import BadRequest, invalid
from modelwright.adapters.embedded.resources import Update
from modelwright.api.faults import Fault
from modelwright.api.kind import Scale
from modelwright.api.table import look_up

Object = dict[str, Any]
_SHARED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(scale: Scale, entry: Entry) -> Object:
    """The Scale of an object."""
    return _scale(scale, msgspec.json.decode(entry.value))


def rescaled(scale: Scale, update: Update) -> Update:
    """The change of an object that a change of its Scale means."""

    def change(value: Object) -> Object:
        new = update(_scale(scale, value))
        spec = new.get("spec")
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
        if isinstance(replicas, bool) or not isinstance(replicas, int):
            raise BadRequest("spec.replicas of a Scale must be a number", reason="BadRequest")
        if replicas < 0:
            text = f"Invalid value: {replicas}: must be greater than or equal to 0"
            raise invalid(
                "Scale.autoscaling", value["metadata"]["name"], [Fault("spec.replicas", "FieldValueInvalid", text)]
            )
        metadata = new.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise BadRequest("metadata must be an object", reason="BadRequest")
        for field in ("uid", "resourceVersion", "name"):
            if metadata.get(field):
                value["metadata"][field] = metadata[field]
        *steps, last = scale.spec_replicas.strip(".").split(".")
        parent = value
        for step in steps:
            parent = parent.setdefault(step, {})
        parent[last] = replicas
        return value

    return change


def _scale(scale: Scale, value: Object) -> Object:
    status: Object = {"replicas": look_up(scale.status_replicas, value) or 0}
    if scale.selector and (selector := look_up(scale.selector, value)):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: value["metadata"][field] for field in _SHARED if field in value["metadata"]},
        "spec": {"replicas": look_up(scale.spec_replicas, value) or 0},
        "status": status,
    }
