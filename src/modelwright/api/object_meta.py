"""The rules of meta/v1 ObjectMeta, in kube-apiserver's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from modelwright.api.checking import checker
from modelwright.api.faults import Fault, invalid, required
from modelwright.api.schema import Schema
from modelwright.api.shaping import shaper

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_KEY_TEXT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_QUALIFIED}') "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE = f"({_QUALIFIED})?"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_NAMESPACE_TEXT = "must be a namespace: lower case letters, digits and '-', first and last a letter or digit"
_MAX_ANNOTATIONS = 256 * 1024


def _text() -> Schema:
    return {"type": "string"}


_TEXTS: Schema = {"type": "object", "additionalProperties": _text(), "maxProperties": 4096}
_OWNER: Schema = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _text(),
        "kind": _text(),
        "name": _text(),
        "uid": _text(),
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}

OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        "name": _text(),
        "generateName": _text(),
        "namespace": _text(),
        "selfLink": _text(),
        "uid": _text(),
        "resourceVersion": _text(),
        "generation": {"type": "integer"},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "ownerReferences": {"type": "array", "items": _OWNER, "maxItems": 1024},
        "finalizers": {"type": "array", "items": _text(), "maxItems": 1024},
        "managedFields": {"type": "array", "items": {"type": "object"}, "maxItems": 4096},
    },
}
"""The fields of ObjectMeta; those that a client cannot set are the server's to fill in."""

shape_meta = shaper(OBJECT_META)
check_meta = checker(OBJECT_META)


def meta_faults(meta: dict[str, Any]) -> Iterator[Fault]:
    """What is wrong with names, labels, annotations, finalizers and owners; types have been checked."""
    yield from _name_faults(meta)
    yield from (fault for key in meta.get("labels", {}) for fault in _key_faults("metadata.labels", key))
    yield from _value_faults(meta.get("labels", {}))
    yield from _annotation_faults(meta.get("annotations", {}))
    yield from (fault for key in meta.get("finalizers", []) for fault in _key_faults("metadata.finalizers", key))
    yield from _owner_faults(meta.get("ownerReferences", []))


def _name_faults(meta: dict[str, Any]) -> Iterator[Fault]:
    name, prefix = meta.get("name", ""), meta.get("generateName", "")
    if not name and not prefix:
        yield required("metadata.name", "name or generateName is required")
    if name:
        yield from _subdomain_faults("metadata.name", name, name)
    elif prefix:
        # The server adds letters and digits: a '-' at the end is no fault.
        yield from _subdomain_faults("metadata.generateName", prefix, f"{prefix[:248]}x")
    namespace = meta.get("namespace", "")
    if namespace and not (re.fullmatch(_LABEL, namespace) and len(namespace) <= 63):
        yield invalid("metadata.namespace", namespace, _NAMESPACE_TEXT)


def _subdomain_faults(field: str, shown: str, name: str) -> Iterator[Fault]:
    if len(name) > 253:
        yield invalid(field, shown, "must be no more than 253 characters")
    elif not re.fullmatch(_SUBDOMAIN, name):
        yield invalid(field, shown, _SUBDOMAIN_TEXT)


def _key_faults(field: str, key: str) -> Iterator[Fault]:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        yield invalid(field, key, _KEY_TEXT)
        return
    if slash and not (re.fullmatch(_SUBDOMAIN, prefix) and len(prefix) <= 253):
        yield invalid(field, key, f"prefix part {_SUBDOMAIN_TEXT}")
    if len(name) > 63:
        yield invalid(field, key, "name part must be no more than 63 characters")
    elif not re.fullmatch(_QUALIFIED, name):
        yield invalid(field, key, _QUALIFIED_TEXT)


def _value_faults(labels: dict[str, str]) -> Iterator[Fault]:
    for value in labels.values():
        if len(value) > 63:
            yield invalid("metadata.labels", value, "must be no more than 63 characters")
        elif not re.fullmatch(_VALUE, value):
            yield invalid("metadata.labels", value, _VALUE_TEXT)


def _annotation_faults(annotations: dict[str, str]) -> Iterator[Fault]:
    for key in annotations:
        yield from _key_faults("metadata.annotations", key.lower())
    size = sum(
        len(key.encode(errors="replace")) + len(value.encode(errors="replace")) for key, value in annotations.items()
    )
    if size > _MAX_ANNOTATIONS:
        message = f"Too long: may not be more than {_MAX_ANNOTATIONS} bytes"
        yield Fault("metadata.annotations", "FieldValueTooLong", message)


def _owner_faults(owners: list[dict[str, Any]]) -> Iterator[Fault]:
    for owner in owners:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner[key]:
                what = "version " if key == "apiVersion" else ""
                yield invalid(f"metadata.ownerReferences.{key}", "", f"{what}must not be empty")
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        yield invalid("metadata.ownerReferences", controllers, "Only one reference can have Controller set to true")
