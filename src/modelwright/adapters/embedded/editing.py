"""One write within a transaction: what becomes of the object, its generation, its owner and its finalizers."""

from __future__ import annotations

import random
from typing import Any, Literal
from uuid import uuid4

import msgspec

from modelwright.adapters.embedded import metadata as rules
from modelwright.adapters.embedded.core import NAMESPACES
from modelwright.adapters.embedded.definitions import Definition, Definitions
from modelwright.adapters.embedded.garbage import Policy, Reaper
from modelwright.adapters.embedded.history import Entry, Key
from modelwright.adapters.embedded.identity import check_preconditions
from modelwright.adapters.embedded.refusals import BadRequest, TooLarge, already_exists, invalid, not_found
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.errors import Forbidden

Object = dict[str, Any]
Validation = Literal["Strict", "Warn", "Ignore"]

DEFAULT_NAMESPACE = "default"
MAX_OBJECT_BYTES = 3 * 1024 * 1024
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


class Written(msgspec.Struct, frozen=True):
    """What a write left, with warnings about fields that were dropped."""

    entry: Entry
    warnings: tuple[str, ...] = ()


class Deletion(msgspec.Struct, frozen=True):
    """How to delete; `uid` and `version`, where given, must be those of the object."""

    policy: Policy = "Background"
    uid: str = ""
    version: str = ""
    dry_run: bool = False


class Deleted(msgspec.Struct, frozen=True):
    """The object as it was left, or, if it is `gone`, as it last was."""

    entry: Entry
    gone: bool


class Editor:
    """Writes objects as part of one transaction. `now` is the time of all of it, as meta/v1 Time."""

    def __init__(self, transaction: Transaction, definitions: Definitions, now: str) -> None:
        self._transaction = transaction
        self._now = now
        self.reaper = Reaper(transaction, now, definitions.knows)

    def create(self, definition: Definition, namespace: str, value: Object, validation: Validation = "Warn") -> Written:
        """Create an object that is complete with apiVersion, kind and metadata.

        Raises AlreadyExists, Invalid, NotFound (the namespace), Forbidden (it is being deleted).
        """
        self._check_namespace(definition, namespace)
        value["metadata"]["namespace"] = namespace
        if definition.has_status:
            value.pop("status", None)
        admitted, warnings = _admit(definition, value, None, "", validation)
        metadata = admitted["metadata"]
        name = metadata.get("name") or self._generated(definition, namespace, metadata["generateName"])
        key = key_of(definition, namespace, name)
        if self._transaction.get(key) is not None:
            raise already_exists(definition.resource, name)
        admitted["metadata"] = rules.tidy(metadata, self._identity(definition, namespace, name))
        entry = self._put(key, admitted)
        self._settle(key, admitted)
        return Written(entry, warnings)

    def replace(
        self, definition: Definition, key: Key, new: Object, validation: Validation = "Warn", subresource: str = ""
    ) -> Written:
        """Replace an object that exists, or its status, whose identity has been checked. Raises Invalid."""
        entry = self._existing(definition, key)
        old = decode(entry)
        stored = old["metadata"]
        admitted, warnings = _admit(definition, new, old, subresource, validation)
        metadata = admitted["metadata"]
        faults = list(rules.finalizer_faults(metadata, stored))
        if faults:
            raise invalid(definition.qualified_kind, key[2], faults)
        admitted["metadata"] = stored if subresource else rules.tidy(metadata, stored)
        if definition.has_generation and _spec(admitted) != _spec(old):
            admitted["metadata"]["generation"] += 1
        admitted["metadata"]["resourceVersion"] = stored["resourceVersion"]
        if admitted == decode(entry):
            return Written(entry, warnings)
        written = self._put(key, admitted)
        self._settle(key, admitted)
        return Written(written, warnings)

    def delete(self, definition: Definition, key: Key, how: Deletion) -> Deleted:
        """Raises NotFound, Conflict (preconditions), Forbidden (the default namespace)."""
        entry = self._existing(definition, key)
        check_preconditions(definition, key[2], entry, how.uid, how.version)
        if key == key_of(NAMESPACES, "", DEFAULT_NAMESPACE):
            raise Forbidden(
                f'namespaces "{key[2]}" is forbidden: this namespace may not be deleted', reason="Forbidden"
            )
        policy = "Background" if definition is NAMESPACES else how.policy
        left = self.reaper.delete(key, policy)
        return Deleted(left, gone=self._transaction.get(key) is None)

    def _identity(self, definition: Definition, namespace: str, name: str) -> Object:
        metadata: Object = {"name": name, "uid": str(uuid4()), "creationTimestamp": self._now}
        if definition.namespaced:
            metadata["namespace"] = namespace
        if definition.has_generation:
            metadata["generation"] = 1
        return metadata

    def _settle(self, key: Key, value: Object) -> None:
        if value["metadata"].get("ownerReferences") or value["metadata"].get("deletionTimestamp"):
            self.reaper.settle(key)

    def _check_namespace(self, definition: Definition, namespace: str) -> None:
        if not definition.namespaced:
            return
        entry = self._transaction.get(key_of(NAMESPACES, "", namespace))
        if entry is None:
            raise not_found(NAMESPACES.resource, namespace)
        if decode(entry)["metadata"].get("deletionTimestamp"):
            raise Forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated",
                reason="NamespaceTerminating",
            )

    def _put(self, key: Key, value: Object) -> Entry:
        entry = self._transaction.put(key, value)
        if len(entry.value) > MAX_OBJECT_BYTES:
            size = f"{len(entry.value)} bytes, at most {MAX_OBJECT_BYTES} are stored"
            raise TooLarge(f'{key[0]} "{key[2]}" is too large: {size}', reason="RequestEntityTooLarge")
        return entry

    def _generated(self, definition: Definition, namespace: str, prefix: str) -> str:
        longest = (63 if definition is NAMESPACES else 253) - 5
        while True:
            # Names need to be free, not secret.
            name = prefix[:longest] + "".join(random.choices(_SUFFIX, k=5))  # noqa: S311
            if self._transaction.get(key_of(definition, namespace, name)) is None:
                return name

    def _existing(self, definition: Definition, key: Key) -> Entry:
        entry = self._transaction.get(key)
        if entry is None:
            raise not_found(definition.resource, key[2])
        return entry


def key_of(definition: Definition, namespace: str, name: str) -> Key:
    return (definition.resource, namespace if definition.namespaced else "", name)


def _admit(
    definition: Definition, value: Object, old: Object | None, subresource: str, validation: Validation
) -> tuple[Object, tuple[str, ...]]:
    """The object to store, and warnings about fields that it lost. Raises BadRequest, Unprocessable."""
    admission = definition.admit(value, old, subresource)
    unknown = [f'unknown field "{path}"' for path in admission.unknown]
    if unknown and validation == "Strict":
        raise BadRequest(f"strict decoding error: {', '.join(unknown)}", reason="BadRequest")
    if admission.faults:
        name = value["metadata"].get("name") or value["metadata"].get("generateName", "")
        raise invalid(definition.qualified_kind, str(name), admission.faults)
    return admission.object, tuple(unknown) if validation == "Warn" else ()


def _spec(value: Object) -> Object:
    return {field: inner for field, inner in value.items() if field not in ("metadata", "status")}
