"""The two resources of the core group that clients cannot do without: namespaces and Events."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from modelwright.adapters.embedded.definitions import Definition, TableFormat
from modelwright.api.admission import Admission
from modelwright.api.faults import Fault, Place, invalid, spelled
from modelwright.api.object_meta import check_meta, meta_faults, shape_meta
from modelwright.api.table import age

Object = dict[str, Any]

EVENT_FIELDS = frozenset(
    {
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "type", "source", "reportingComponent",
    }
)  # fmt: skip


class _ObjectReference(msgspec.Struct, rename="camel", omit_defaults=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class _Source(msgspec.Struct, omit_defaults=True):
    component: str = ""
    host: str = ""


class _Series(msgspec.Struct, rename="camel", omit_defaults=True):
    count: int = 0
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel", omit_defaults=True):
    involved_object: _ObjectReference
    reason: str = ""
    message: str = ""
    source: _Source = msgspec.field(default_factory=_Source)
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    count: int = 0
    type: str = ""
    series: _Series | None = None
    action: str = ""
    related: _ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


_LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HEAD = frozenset({"apiVersion", "kind", "metadata"})
_EVENT_KEYS = frozenset(field.encode_name for field in msgspec.structs.fields(_Event))


def admit_event(new: Object, _old: Object | None, _subresource: str) -> Admission:
    """An Event of core/v1 about an object of its own namespace."""
    body = {key: value for key, value in new.items() if key in _EVENT_KEYS}
    metadata, unknown, faults = _metadata(new)
    unknown += sorted(new.keys() - _EVENT_KEYS - _HEAD)
    head = {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": metadata}
    try:
        event = msgspec.convert(body, _Event)
    except msgspec.ValidationError as error:
        return Admission(head, tuple(unknown), (*faults, Fault("", "FieldValueInvalid", f"Invalid value: {error}")))
    if event.involved_object.namespace not in ("", metadata.get("namespace", "")):
        faults.append(invalid("involvedObject.namespace", event.involved_object.namespace, "is not the Event's"))
    return Admission({**head, **msgspec.to_builtins(event)}, tuple(unknown), tuple(faults))


def admit_namespace(new: Object, old: Object | None, _subresource: str) -> Admission:
    """A namespace has nothing of its own but its metadata: its spec and status are the server's."""
    metadata, unknown, faults = _metadata(new)
    unknown += sorted(new.keys() - _HEAD - {"spec", "status"})
    name = metadata.get("name", "") if not faults else ""
    if name and not _LABEL.fullmatch(name):
        faults.append(invalid("metadata.name", name, "a namespace is at most 63 of a-z, 0-9 and '-'"))
    if not faults:
        metadata["labels"] = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": name}
    head = {"apiVersion": new["apiVersion"], "kind": new["kind"], "metadata": metadata}
    status = (old or {}).get("status", {"phase": "Active"})
    return Admission({**head, "spec": {"finalizers": ["kubernetes"]}, "status": status}, tuple(unknown), tuple(faults))


def _metadata(new: Object) -> tuple[Object, list[str], list[Fault]]:
    unknown: list[Place] = []
    metadata = shape_meta(new["metadata"], ((), "metadata"), unknown)
    faults: list[Fault] = []
    check_meta(metadata, ((), "metadata"), faults)
    return metadata, [spelled(place) for place in unknown], faults or list(meta_faults(metadata))


def _age(moment: str | None, now: datetime) -> str:
    return age(datetime.fromisoformat(moment).astimezone(UTC), now) if moment else "<unknown>"


def _namespace_row(value: Object, now: datetime) -> list[Any]:
    metadata = value["metadata"]
    return [metadata["name"], value["status"]["phase"], _age(metadata["creationTimestamp"], now)]


def _event_row(value: Object, now: datetime) -> list[Any]:
    about = value["involvedObject"]
    last = value.get("lastTimestamp") or value.get("eventTime") or value["metadata"]["creationTimestamp"]
    what = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
    first = _age(value.get("firstTimestamp") or last, now)
    source = value.get("source", {}).get("component") or value.get("reportingComponent", "")
    seen = [_age(last, now), value.get("type", ""), value.get("reason", ""), what]
    return [*seen, source, value.get("message", "").strip(), first, value.get("count", 1), value["metadata"]["name"]]


def _column(name: str, description: str, *, type_: str = "string", format_: str = "", wide: bool = False) -> Object:
    priority = 1 if wide else 0
    return {"name": name, "type": type_, "format": format_, "description": description, "priority": priority}


NAMESPACES = Definition(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    singular="namespace",
    short_names=("ns",),
    admit=admit_namespace,
    table=TableFormat(
        [
            _column("Name", "The name of the namespace.", format_="name"),
            _column("Status", "Active, or Terminating while it is emptied."),
            _column("Age", "Since when it exists."),
        ],
        _namespace_row,
    ),
    namespaced=False,
    has_status=False,
    has_generation=False,
    fields=frozenset({"status.phase"}),
)

EVENTS = Definition(
    group="",
    version="v1",
    kind="Event",
    plural="events",
    singular="event",
    short_names=("ev",),
    admit=admit_event,
    table=TableFormat(
        [
            _column("Last Seen", "When it happened last."),
            _column("Type", "Normal or Warning."),
            _column("Reason", "Why it happened, in one word."),
            _column("Object", "What it happened to."),
            _column("Source", "Who says so.", wide=True),
            _column("Message", "What happened."),
            _column("First Seen", "When it happened first.", wide=True),
            _column("Count", "How often it happened.", type_="integer", wide=True),
            _column("Name", "The name of the Event.", format_="name", wide=True),
        ],
        _event_row,
    ),
    has_status=False,
    has_generation=False,
    fields=EVENT_FIELDS,
)
