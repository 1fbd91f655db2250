"""Admission: what becomes of an object that a client sends, and what is wrong with it. Pure: no I/O, no clock.

In the order of kube-apiserver: nulls and unknown fields go, defaults come in, then all faults against the schema
together, and only if there are none all faults against the rules together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from modelwright.api.cel_rules import Rules
from modelwright.api.checking import Check, checker
from modelwright.api.faults import Fault, Place, invalid, spelled, wrong_type
from modelwright.api.kind import Kind
from modelwright.api.object_meta import check_meta, meta_faults, shape_meta
from modelwright.api.schema import Schema, object_schema
from modelwright.api.shaping import shaper

_SERVER_ONLY = ("managedFields", "selfLink")


class Admission(msgspec.Struct, frozen=True):
    """`object` is what to store if there are no `faults`; `unknown` are the paths of the fields that were dropped."""

    object: dict[str, Any]
    unknown: tuple[str, ...]
    faults: tuple[Fault, ...]


class Admitter:
    """The admission of one kind, compiled from its schema and rules."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        schema = object_schema(kind)
        self._shape = shaper(schema)
        self._check_spec = checker(_only(schema, "spec"))
        self._check_status = checker(_only(schema, "status"))
        self._rules = Rules(kind.all_rules)

    def admit(self, new: dict[str, Any], old: dict[str, Any] | None) -> Admission:
        """Create (`old` is None) or update. The status is kept as it was: it has a subresource of its own."""
        unknown: list[Place] = []
        body, meta = self._in_shape(new, unknown)
        kept = {"status": old["status"]} if old and "status" in old else {}
        given = {"spec": body["spec"]} if "spec" in body else {}
        result = self._head() | {"metadata": meta} | given | kept
        faults = (*self._head_faults(body), *_meta_faults(meta), *self._spec_faults(given, old))
        return Admission(result, tuple(map(spelled, unknown)), faults)

    def admit_status(self, new: dict[str, Any], old: dict[str, Any]) -> Admission:
        """Update of the status subresource: everything but the status is kept as it was."""
        unknown: list[Place] = []
        body, _ = self._in_shape(new, unknown)
        given = {"status": body["status"]} if "status" in body else {}
        result = {key: value for key, value in old.items() if key != "status"} | given
        faults = (*self._head_faults(body), *_found(self._check_status, given))
        return Admission(result, tuple(map(spelled, unknown)), faults)

    def _in_shape(self, new: dict[str, Any], unknown: list[Place]) -> tuple[dict[str, Any], Any]:
        body = self._shape(new, (), unknown)
        meta = shape_meta(body.get("metadata", {}), ((), "metadata"), unknown)
        if isinstance(meta, dict):
            meta = {key: value for key, value in meta.items() if key not in _SERVER_ONLY}
        return body, meta

    def _head(self) -> dict[str, Any]:
        return {"apiVersion": self.kind.api_version, "kind": self.kind.kind}

    def _head_faults(self, body: dict[str, Any]) -> Iterator[Fault]:
        for field, wanted in self._head().items():
            if body.get(field, wanted) != wanted:
                yield invalid(field, body[field], f"must be {wanted} here")

    def _spec_faults(self, given: dict[str, Any], old: dict[str, Any] | None) -> tuple[Fault, ...]:
        before = {"spec": old["spec"]} if old and "spec" in old else {}
        if old is not None and _same(given, before):
            return ()  # it was admitted once: rules that have become stricter since must not block other writes
        wrong = _found(self._check_spec, given)
        if wrong:
            return wrong
        return tuple(self._rules.faults(given, before or None))


def admit(kind: Kind, new: Any, old: dict[str, Any] | None, *, subresource: str = "") -> Admission:
    """What becomes of an object that a client sends; `old` is the stored one, None on creation.

    `subresource` is "" or "status". Raises ValueError for others, and for a status without a stored object.
    """
    if not isinstance(new, dict):
        return Admission({}, (), (wrong_type("", new, "object"),))
    if subresource == "":
        return _admitter(kind).admit(new, old)
    if subresource == "status" and old is not None:
        return _admitter(kind).admit_status(new, old)
    raise ValueError(
        f"no admission for subresource {subresource!r} {'without' if old is None else 'with'} an old object"
    )


_ADMITTERS: dict[str, Admitter] = {}


def _admitter(kind: Kind) -> Admitter:
    found = _ADMITTERS.get(kind.crd_name)
    if found is None or found.kind is not kind:
        found = _ADMITTERS[kind.crd_name] = Admitter(kind)
    return found


def _only(schema: Schema, field: str) -> Schema:
    """The part of an object's schema that is about one field."""
    needed = [name for name in schema.get("required", []) if name == field]
    return {"type": "object", "properties": {field: schema["properties"][field]}, "required": needed}


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same to the byte: to Python, 1 and true would be equal."""
    return msgspec.json.encode(one) == msgspec.json.encode(other)


def _found(check: Check, value: Any) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    check(value, (), faults)
    return tuple(faults)


def _meta_faults(meta: Any) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    check_meta(meta, ((), "metadata"), faults)
    return tuple(faults) or tuple(meta_faults(meta))
