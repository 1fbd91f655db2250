"""Whether a request is about the very object that it means: kind, name, uid, version."""

from __future__ import annotations

from typing import Any

from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.refusals import BadRequest, conflict, invalid, modified
from modelwright.api.faults import Fault

Object = dict[str, Any]


def identified(definition: Definition, namespace: str, value: Object) -> Object:
    """The object with apiVersion, kind and metadata first. Raises BadRequest if they are not those of the request."""
    for field, expected, what in (
        ("apiVersion", definition.api_version, "API version"),
        ("kind", definition.kind, "kind"),
    ):
        given = value.get(field, expected)
        if given != expected:
            text = f"the {what} in the data ({given}) does not match the expected {what} ({expected})"
            raise BadRequest(text, reason="BadRequest")
    metadata = {} if value.get("metadata") is None else value["metadata"]
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object", reason="BadRequest")
    if metadata.get("namespace", namespace) not in (namespace, "", None):
        text = "the namespace of the provided object does not match the namespace sent on the request"
        raise BadRequest(text, reason="BadRequest")
    head = {"apiVersion": definition.api_version, "kind": definition.kind, "metadata": metadata}
    return {**head, **{field: inner for field, inner in value.items() if field not in head}}


def check_identity(definition: Definition, old: Object, new: Object, *, versioned: bool) -> None:
    name, stored, given = old["metadata"]["name"], old["metadata"], new["metadata"]
    if given.get("name", name) != name:
        text = f"the name of the object ({given['name']}) does not match the name on the URL ({name})"
        raise BadRequest(text, reason="BadRequest")
    if given.get("uid") not in (None, "", stored["uid"]):
        why = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {stored['uid']}"
        raise conflict(definition.resource, name, why)
    if given.get("resourceVersion"):
        if given["resourceVersion"] != stored["resourceVersion"]:
            raise modified(definition.resource, name)
    elif versioned:
        text = "Invalid value: 0: must be specified for an update"
        fault = Fault("metadata.resourceVersion", "FieldValueInvalid", text)
        raise invalid(definition.qualified_kind, name, [fault])


def check_preconditions(definition: Definition, name: str, entry: Entry, uid: str, version: str) -> None:
    if uid and uid != entry.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({entry.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(definition.resource, name, why)
    if version and version != str(entry.version):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({entry.version}). The object might have been modified"
        )
        raise conflict(definition.resource, name, why)
