"""The Store of the embedded control plane: resources as structs, over the same objects that the API server serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec

from modelwright.adapters.embedded.database import Connect, connect
from modelwright.adapters.embedded.datadir import DataDirectory
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.editing import Deletion
from modelwright.adapters.embedded.events import Recorder
from modelwright.adapters.embedded.history import Entry
from modelwright.adapters.embedded.objects import KEEP_CHANGES, Objects
from modelwright.adapters.embedded.resources import Object, Resources, Update
from modelwright.adapters.embedded.served import definitions_of
from modelwright.api.kind import Kind
from modelwright.api.kinds import KINDS, decode, kind_of, to_dict
from modelwright.ports.clock import Clock, SystemClock
from modelwright.ports.errors import Expired, Invalid
from modelwright.ports.store import Change, Event, Listing, Unreadable

R = TypeVar("R")

DATABASE = "state.db"
BOOKMARK_SECONDS = 60.0
_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")


class EmbeddedStore:
    """Resources in a data directory that this process holds. `resources` is what an API server is made of."""

    def __init__(self, directory: DataDirectory, resources: Resources, clock: Clock, bookmark_seconds: float) -> None:
        self._directory = directory
        self._objects = resources.objects
        self._recorder = Recorder(resources, clock)
        self._bookmark_seconds = bookmark_seconds
        self.resources = resources

    @classmethod
    async def open(
        cls,
        data_dir: Path,
        *,
        kinds: Iterable[Kind] = KINDS,
        clock: Clock | None = None,
        keep_changes: int = KEEP_CHANGES,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        connect: Connect = connect,
    ) -> EmbeddedStore:
        """Claim the data directory and open, or make, its database.

        The newest `keep_changes` changes are kept for watches to resume from.
        Raises Unavailable (DataDirectoryInUse, StorageFull, StorageFailed) and Rejected (DataDirectoryUnusable,
        NetworkFileSystem, DatabaseCorrupt, DatabaseTooNew, DatabaseForeign), each with what to do.
        """
        time = clock or SystemClock()
        directory = DataDirectory.claim(data_dir)
        try:
            objects = Objects.open(directory.path / DATABASE, keep=keep_changes, connect=connect)
        except BaseException:
            directory.release()
            raise
        store = cls(directory, Resources(objects, definitions_of(kinds), time), time, bookmark_seconds)
        try:
            await store.resources.prepare()
        except BaseException:
            await store.close()
            raise
        return store

    def end_watches(self) -> None:
        """End all watches, ours and those of the API's clients: a server that stops would wait for them."""
        self._objects.history.close()

    async def close(self) -> None:
        """Finish what was begun, end all watches, let another process have the directory."""
        await self._objects.close()
        self._directory.release()

    async def get(self, type_: type[R], namespace: str, name: str) -> R:
        """The resource as it is now. Raises NotFound."""
        return _read(type_, self.resources.get(self._definition(type_), namespace, name))

    async def list(self, type_: type[R]) -> Listing[R]:
        """All resources of a kind, by namespace and name."""
        entries = self._objects.snapshot(self._definition(type_).resource)
        found = [_readable(type_, entry) for entry in entries]
        unreadable = tuple(item for item in found if isinstance(item, Unreadable))
        readable = tuple(item for item in found if not isinstance(item, Unreadable))
        return Listing(readable, str(self._objects.version), unreadable)

    async def watch(self, type_: type[R], version: str) -> AsyncIterator[Change[R]]:
        """Every change after `version`, in order. Raises Expired, and Unavailable once the store is closed."""
        resource, history = self._definition(type_).resource, self._objects.history
        seen = marked = _version(version)
        due = monotonic() + self._bookmark_seconds
        while True:
            changes, newest = history.since(seen, resource), history.version
            for change in changes:
                found = _readable(type_, change.entry)
                if isinstance(found, Unreadable):
                    yield Change(change.type, None, str(change.version), found)
                else:
                    yield Change(change.type, found, str(change.version))
            seen = newest
            if monotonic() >= due:
                due = monotonic() + self._bookmark_seconds
                if seen > marked:
                    marked = seen
                    yield Change("BOOKMARK", None, str(seen))
            await history.wait_after(seen, resource, max(due - monotonic(), 0))

    async def create(self, resource: R) -> R:
        """Raises AlreadyExists, Invalid, NotFound (its namespace), Forbidden (it is being deleted), Unavailable."""
        definition, value = self._definition(type(resource)), _plain(resource)
        written = await self.resources.create(definition, value["metadata"].get("namespace", ""), _new(value))
        return _read(type(resource), written.entry)

    async def update_metadata(self, resource: R) -> R:
        """Write labels, annotations, owner references and finalizers. Raises Conflict, NotFound, Invalid."""
        metadata = _plain(resource)["metadata"]
        mine = {field: metadata[field] for field in _METADATA if field in metadata}

        def update(value: Object) -> Object:
            kept = {field: inner for field, inner in value["metadata"].items() if field not in _METADATA}
            return {**value, "metadata": {**kept, **mine}}

        return await self._modify(resource, metadata, update, status=False)

    async def update_spec(self, resource: R) -> R:
        """Write the spec alone, as a whole. Raises Conflict, NotFound, Invalid."""
        new = _plain(resource)
        return await self._modify(
            resource, new["metadata"], lambda value: {**value, "spec": new.get("spec", {})}, status=False
        )

    async def update_status(self, resource: R) -> R:
        """Write the status alone. Raises Conflict, NotFound, Invalid."""
        new = _plain(resource)
        return await self._modify(
            resource, new["metadata"], lambda value: {**value, "status": new.get("status", {})}, status=True
        )

    async def delete(self, resource: Any) -> None:
        """Delete this very resource (uid and, where set, resource version must match). Raises Conflict, NotFound."""
        metadata = resource.metadata
        how = Deletion(uid=metadata.uid, version=metadata.resource_version)
        await self.resources.delete(self._definition(type(resource)), metadata.namespace, metadata.name, how)

    async def record(self, event: Event) -> None:
        """Write an Event down. Raises NotFound and Forbidden (its namespace), Unavailable."""
        await self._recorder.record(event)

    async def _modify(self, resource: R, metadata: Object, update: Update, *, status: bool) -> R:
        identity = {field: metadata[field] for field in ("uid", "resourceVersion") if metadata.get(field)}

        def identified(value: Object) -> Object:
            new = update(value)
            return {**new, "metadata": {**new["metadata"], **identity}}

        written = await self.resources.modify(
            self._definition(type(resource)),
            metadata.get("namespace", ""),
            metadata["name"],
            identified,
            subresource="status" if status else "",
        )
        return _read(type(resource), written.entry)

    def _definition(self, type_: type[Any]) -> Definition:
        kind = kind_of(type_)
        definition = self.resources.definitions.by_kind(kind.api_version, kind.kind)
        if definition is None:
            raise KeyError(kind.kind)
        return definition


def _new(value: Object) -> Object:
    """What a creation takes of a resource: its identity is the server's to give."""
    given = {"resourceVersion", "uid", "creationTimestamp", "deletionTimestamp", "generation"}
    return {**value, "metadata": {key: inner for key, inner in value["metadata"].items() if key not in given}}


def _plain(resource: Any) -> Object:
    try:
        return to_dict(resource)
    except UnicodeEncodeError as error:
        name = resource.metadata.name
        raise Invalid(f"{type(resource).__name__} {name!r} holds text that is no Unicode: {error}") from error


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Expired(f"{text[:40]!r} is no version of this store: list again")
    return int(text)


def _read(type_: type[R], entry: Entry) -> R:
    try:
        return decode(type_, entry.value)
    except msgspec.MsgspecError as error:
        raise Invalid(f"the stored {type_.__name__} cannot be read: {error}", reason="Unreadable") from error


def _readable(type_: type[R], entry: Entry) -> R | Unreadable:
    """One object that cannot be read must not keep all others from being seen."""
    try:
        return _read(type_, entry)
    except Invalid as error:
        metadata = msgspec.json.decode(entry.value)["metadata"]
        return Unreadable(metadata.get("namespace", ""), metadata["name"], metadata["uid"], error.message)
