"""Our structs as the objects that a Kubernetes API server stores, and back."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from modelwright.adapters.kubernetes.client import JSON
from modelwright.api.kinds import decode, kind_of, to_dict
from modelwright.ports.errors import Invalid

R = TypeVar("R")

SET_BY_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")


def read(type_: type[R], data: bytes | msgspec.Raw) -> R:
    """The struct in an object's bytes. Raises Invalid for one that an older, laxer schema let in."""
    try:
        return decode(type_, bytes(data))
    except (msgspec.ValidationError, msgspec.DecodeError) as fault:
        message = f"a stored {kind_of(type_).kind} does not fit its schema: {fault}"
        raise Invalid(message, reason="UnreadableObject") from None


def to_create(resource: Any) -> JSON:
    """The body of a POST: without what the server sets, and without status, which a create cannot set."""
    body = to_dict(resource)
    body["metadata"] = {key: value for key, value in body["metadata"].items() if key not in SET_BY_SERVER}
    body.pop("status", None)
    return body


def to_status(resource: Any) -> JSON:
    """The body of a PUT on the status subresource: spec and other metadata are ignored there, so they are left out."""
    body = to_dict(resource)
    metadata = resource.metadata
    identity = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
    identity["resourceVersion"] = metadata.resource_version
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {key: value for key, value in identity.items() if value},
        "status": body.get("status", {}),
    }


def to_metadata_patch(resource: Any) -> list[JSON]:
    """A JSON patch that sets the four parts of metadata that we own, as a whole.

    A merge patch cannot take a label away without knowing that it was there.
    """
    metadata = resource.metadata
    owners = [msgspec.to_builtins(owner) for owner in metadata.owner_references]
    parts: dict[str, Any] = {
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "ownerReferences": owners,
        "finalizers": list(metadata.finalizers),
    }
    changes = [{"op": "add", "path": f"/metadata/{name}", "value": value} for name, value in parts.items()]
    return _preconditions(resource) + changes


def to_spec_patch(resource: Any) -> list[JSON]:
    """A JSON patch that sets the spec as a whole: a PUT would take away what our structs leave out of metadata."""
    return [*_preconditions(resource), {"op": "add", "path": "/spec", "value": to_dict(resource).get("spec", {})}]


def _preconditions(resource: Any) -> list[JSON]:
    """Operations that are refused as a Conflict if it is another object of that name, or a newer version of it."""
    metadata = resource.metadata
    identity = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in identity.items() if value]
