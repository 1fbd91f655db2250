"""The semantics of the Kubernetes API over the store: identity, generations, conflicts, subresources, deletion."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from modelwright.adapters.embedded.core import NAMESPACES
from modelwright.adapters.embedded.definitions import Definition, Definitions
from modelwright.adapters.embedded.editing import (
    DEFAULT_NAMESPACE,
    Deleted,
    Deletion,
    Editor,
    Validation,
    Written,
    key_of,
)
from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.identity import check_identity, identified
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.refusals import not_found
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.clock import Clock

Object = dict[str, Any]
Update = Callable[[Object], Object]


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
        await self.objects.write(lambda transaction: self.editor(transaction).reaper.sweep())

    def editor(self, transaction: Transaction) -> Editor:
        """What writes objects within a transaction."""
        return Editor(transaction, self.definitions, timestamp(self._clock.now()))

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
            return self.editor(transaction).create(definition, namespace, complete, validation)

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

        def change(transaction: Transaction) -> Written:
            key = key_of(definition, namespace, name)
            entry = transaction.get(key)
            if entry is None:
                raise not_found(definition.resource, name)
            new = identified(definition, namespace, update(decode(entry)))
            check_identity(definition, decode(entry), new, versioned=versioned)
            return self.editor(transaction).replace(definition, key, new, validation, subresource)

        before = self.objects.get(key_of(definition, namespace, name)) if dry_run else None
        written = await self.objects.write(change, dry_run=dry_run)
        return _unwritten(written, before) if dry_run else written

    async def delete(self, definition: Definition, namespace: str, name: str, how: Deletion) -> Deleted:
        """Raises NotFound, Conflict (preconditions), Forbidden (the default namespace), Unavailable."""

        def change(transaction: Transaction) -> Deleted:
            return self.editor(transaction).delete(definition, key_of(definition, namespace, name), how)

        return await self.objects.write(change, dry_run=how.dry_run)

    async def delete_all(self, definition: Definition, entries: list[Entry], how: Deletion) -> list[Entry]:
        """Delete what was found by a list; what is gone meanwhile is passed over. All or nothing."""

        def change(transaction: Transaction) -> list[Entry]:
            editor, deleted = self.editor(transaction), []
            for entry in entries:
                key = transaction.index.find(entry.uid)
                if key is not None:
                    deleted.append(editor.delete(definition, key, how).entry)
            return deleted

        return await self.objects.write(change, dry_run=how.dry_run)


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unwritten(written: Written, before: Entry | None) -> Written:
    """The result of a dry run: it has no version of its own."""
    value = decode(written.entry)
    value["metadata"].pop("resourceVersion")
    if before is not None:
        value["metadata"]["resourceVersion"] = str(before.version)
    entry = msgspec.structs.replace(written.entry, value=msgspec.json.encode(value))
    return msgspec.structs.replace(written, entry=entry)
