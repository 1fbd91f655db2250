"""The semantics of the Kubernetes API over the store: identity, generations, conflicts, subresources, deletion."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import msgspec

from modelwright.adapters.embedded import metadata as rules
from modelwright.adapters.embedded.core import NAMESPACES
from modelwright.adapters.embedded.definitions import Definition, Definitions
from modelwright.adapters.embedded.garbage import Policy, Reaper
from modelwright.adapters.embedded.history import Entry, Key
from modelwright.adapters.embedded.identity import check_identity, check_preconditions, identified
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.refusals import (
    BadRequest,
    TooLarge,
    already_exists,
    invalid,
    not_found,
)
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.clock import Clock
from modelwright.ports.errors import Forbidden

Object = dict[str, Any]
Validation = Literal["Strict", "Warn", "Ignore"]
Update = Callable[[Object], Object]

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


class _How(msgspec.Struct, frozen=True):
    subresource: str
    validation: Validation


class Resources:
    """Creates, changes and deletes the objects of the kinds in `definitions`."""

    def __init__(self, objects: Objects, definitions: Definitions, clock: Clock) -> None:
        self.objects = objects
        self.definitions = definitions
        self._clock = clock

    async def prepare(self) -> None:
        """Make what must always be there, and collect what a crash of an older program may have left."""
        if self.objects.get(key_of(NAMESPACES, "", DEFAULT_NAMESPACE)) is None:
            await self.create(NAMESPACES, "", {"metadata": {"name": DEFAULT_NAMESPACE}})
        await self.objects.write(lambda transaction: self.reaper(transaction).sweep())

    def now(self) -> str:
        """The time now as meta/v1 Time."""
        return timestamp(self._clock.now())

    def reaper(self, transaction: Transaction) -> Reaper:
        return Reaper(transaction, self.now(), self.definitions.knows)

    def get(self, definition: Definition, namespace: str, name: str) -> Entry:
        """Raises NotFound."""
        entry = self.objects.get(key_of(definition, namespace, name))
        if entry is None:
            raise not_found(definition.resource, name)
        return entry

    async def create(
        self,
        definition: Definition,
        namespace: str,
        value: Object,
        *,
        validation: Validation = "Warn",
        dry_run: bool = False,
    ) -> Written:
        """Raises AlreadyExists, Invalid, NotFound (the namespace), Forbidden (it is being deleted), Unavailable."""
        complete = identified(definition, namespace, value)

        def change(transaction: Transaction) -> Written:
            return self.create_in(transaction, definition, namespace, complete, validation)

        written = await self.objects.write(change, dry_run=dry_run)
        return _unwritten(written, None) if dry_run else written

    async def modify(
        self,
        definition: Definition,
        namespace: str,
        name: str,
        update: Update,
        *,
        subresource: Literal["", "status"] = "",
        validation: Validation = "Warn",
        dry_run: bool = False,
        versioned: bool = False,
    ) -> Written:
        """Read, change and write an object, or its status; nothing is written where nothing differs.

        If the changed object has a resourceVersion, it must be the newest one; `versioned` demands one.
        Raises NotFound, Conflict, Invalid, Unavailable.
        """
        how = _How(subresource, validation)

        def change(transaction: Transaction) -> Written:
            key = key_of(definition, namespace, name)
            entry = transaction.get(key)
            if entry is None:
                raise not_found(definition.resource, name)
            new = identified(definition, namespace, update(decode(entry)))
            check_identity(definition, decode(entry), new, versioned=versioned)
            return self._replace(transaction, definition, key, entry, new, how)

        before = self.objects.get(key_of(definition, namespace, name)) if dry_run else None
        written = await self.objects.write(change, dry_run=dry_run)
        return _unwritten(written, before) if dry_run else written

    async def delete(self, definition: Definition, namespace: str, name: str, how: Deletion) -> Deleted:
        """Raises NotFound, Conflict (preconditions), Forbidden (the default namespace), Unavailable."""

        def change(transaction: Transaction) -> Deleted:
            return self._delete(transaction, definition, key_of(definition, namespace, name), how)

        return await self.objects.write(change, dry_run=how.dry_run)

    async def delete_all(self, definition: Definition, entries: list[Entry], how: Deletion) -> list[Entry]:
        """Delete what was found by a list; what is gone meanwhile is passed over. All or nothing."""

        def change(transaction: Transaction) -> list[Entry]:
            deleted = []
            for entry in entries:
                key = transaction.index.find(entry.uid)
                if key is not None:
                    deleted.append(self._delete(transaction, definition, key, how).entry)
            return deleted

        return await self.objects.write(change, dry_run=how.dry_run)

    def create_in(
        self,
        transaction: Transaction,
        definition: Definition,
        namespace: str,
        value: Object,
        validation: Validation = "Warn",
    ) -> Written:
        """Create an object, complete with apiVersion, kind and metadata, as part of a transaction."""
        self._check_namespace(transaction, definition, namespace)
        value["metadata"]["namespace"] = namespace
        if definition.has_status:
            value.pop("status", None)
        admitted, warnings = _admit(definition, value, None, "", validation)
        metadata = admitted["metadata"]
        name = metadata.get("name") or _generated(transaction, definition, namespace, metadata["generateName"])
        key = key_of(definition, namespace, name)
        if transaction.get(key) is not None:
            raise already_exists(definition.resource, name)
        admitted["metadata"] = rules.tidy(metadata, self._identity(definition, namespace, name))
        entry = _put(transaction, key, admitted)
        self._settle(transaction, key, admitted)
        return Written(entry, warnings)

    def _identity(self, definition: Definition, namespace: str, name: str) -> Object:
        metadata: Object = {"name": name, "uid": str(uuid4()), "creationTimestamp": self.now()}
        if definition.namespaced:
            metadata["namespace"] = namespace
        if definition.has_generation:
            metadata["generation"] = 1
        return metadata

    def _replace(
        self,
        transaction: Transaction,
        definition: Definition,
        key: Key,
        entry: Entry,
        new: Object,
        how: _How,
    ) -> Written:
        old = decode(entry)
        stored = old["metadata"]
        admitted, warnings = _admit(definition, new, old, how.subresource, how.validation)
        metadata = admitted["metadata"]
        faults = list(rules.finalizer_faults(metadata, stored))
        if faults:
            raise invalid(definition.qualified_kind, key[2], faults)
        admitted["metadata"] = stored if how.subresource else rules.tidy(metadata, stored)
        if definition.has_generation and _spec(admitted) != _spec(old):
            admitted["metadata"]["generation"] += 1
        admitted["metadata"]["resourceVersion"] = stored["resourceVersion"]
        if admitted == decode(entry):
            return Written(entry, warnings)
        written = _put(transaction, key, admitted)
        self._settle(transaction, key, admitted)
        return Written(written, warnings)

    def _settle(self, transaction: Transaction, key: Key, value: Object) -> None:
        if value["metadata"].get("ownerReferences") or value["metadata"].get("deletionTimestamp"):
            self.reaper(transaction).settle(key)

    def _check_namespace(self, transaction: Transaction, definition: Definition, namespace: str) -> None:
        if not definition.namespaced:
            return
        entry = transaction.get(key_of(NAMESPACES, "", namespace))
        if entry is None:
            raise not_found(NAMESPACES.resource, namespace)
        if decode(entry)["metadata"].get("deletionTimestamp"):
            raise Forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated",
                reason="NamespaceTerminating",
            )

    def _delete(self, transaction: Transaction, definition: Definition, key: Key, how: Deletion) -> Deleted:
        entry = transaction.get(key)
        if entry is None:
            raise not_found(definition.resource, key[2])
        check_preconditions(definition, key[2], entry, how.uid, how.version)
        if key == key_of(NAMESPACES, "", DEFAULT_NAMESPACE):
            raise Forbidden(
                f'namespaces "{key[2]}" is forbidden: this namespace may not be deleted', reason="Forbidden"
            )
        policy = "Background" if definition is NAMESPACES else how.policy
        left = self.reaper(transaction).delete(key, policy)
        return Deleted(left, gone=transaction.get(key) is None)


def key_of(definition: Definition, namespace: str, name: str) -> Key:
    return (definition.resource, namespace if definition.namespaced else "", name)


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


def _generated(transaction: Transaction, definition: Definition, namespace: str, prefix: str) -> str:
    longest = (63 if definition is NAMESPACES else 253) - 5
    while True:
        # Names need to be free, not secret.
        name = prefix[:longest] + "".join(random.choices(_SUFFIX, k=5))  # noqa: S311
        if transaction.get(key_of(definition, namespace, name)) is None:
            return name


def _unwritten(written: Written, before: Entry | None) -> Written:
    """The result of a dry run: it has no version of its own."""
    value = decode(written.entry)
    value["metadata"].pop("resourceVersion")
    if before is not None:
        value["metadata"]["resourceVersion"] = str(before.version)
    entry = msgspec.structs.replace(written.entry, value=msgspec.json.encode(value))
    return msgspec.structs.replace(written, entry=entry)


def _put(transaction: Transaction, key: Key, value: Object) -> Entry:
    entry = transaction.put(key, value)
    if len(entry.value) > MAX_OBJECT_BYTES:
        size = f"{len(entry.value)} bytes, at most {MAX_OBJECT_BYTES} are stored"
        raise TooLarge(f'{key[0]} "{key[2]}" is too large: {size}', reason="RequestEntityTooLarge")
    return entry


def _spec(value: Object) -> Object:
    return {field: inner for field, inner in value.items() if field not in ("metadata", "status")}
