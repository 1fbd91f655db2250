"""A cache for each kind: everything that the store holds of it, kept up to date by a watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from modelwright.api.kinds import kind_of
from modelwright.engine.backoff import Backoff
from modelwright.ports.errors import Expired, ModelwrightError
from modelwright.ports.store import Change, Event, Listing, Store, Unreadable

R = TypeVar("R")
ObjectKey = tuple[str, str]
Listener = Callable[[Any, Any], None]
Index = Callable[[Any], Iterable[ObjectKey]]

log = logging.getLogger(__name__)

EVENT_LIMIT = 1024
"""Characters that an Event's message may have."""


def key_of(resource: Any) -> ObjectKey:
    """Namespace and name."""
    return resource.metadata.namespace, resource.metadata.name


def newer(resource: Any, than: Any) -> bool:
    """Whether this is a later state than the other: versions of one object compare as numbers (KEP-5504)."""
    return int(resource.metadata.resource_version) > int(than.metadata.resource_version)


class Cache(Generic[R]):
    """The resources of one kind by namespace and name.

    Listeners are called with the state before and after (None: was not there, is gone).
    What we write ourselves is put in at once: no decision is ever made on a state older than our own last write.
    `unreadable` are the UIDs of objects that are there and cannot be read: nothing is done for them, and nothing of
    theirs is taken away.
    """

    def __init__(self, store: Store, type_: type[R], indexes: dict[str, Index] | None = None) -> None:
        self.type = type_
        self.synced = asyncio.Event()
        self.unreadable: set[str] = set()
        self._store = store
        self._items: dict[ObjectKey, R] = {}
        self._indexes = indexes or {}
        self._indexed: dict[str, dict[ObjectKey, set[ObjectKey]]] = {name: {} for name in self._indexes}
        self._listeners: list[Listener] = []
        self._seen = 0

    def listen(self, listener: Listener) -> None:
        """Call this for every change from now on."""
        self._listeners.append(listener)

    def get(self, namespace: str, name: str) -> R | None:
        """The resource, or None."""
        return self._items.get((namespace, name))

    def all(self) -> list[R]:
        """All resources of the kind."""
        return list(self._items.values())

    def by(self, index: str, key: ObjectKey) -> list[R]:
        """The resources that the index puts under this key, by name."""
        return [self._items[found] for found in sorted(self._indexed[index].get(key, ()))]

    def put(self, resource: R) -> None:
        """Take in a state, unless we have a newer one of the same object."""
        key = key_of(resource)
        before = self._items.get(key)
        if before is not None and not newer(resource, before):
            return
        self._replace(key, before, resource)

    def wrote(self, resource: R) -> None:
        """Take in what we have just written, unless the watch has passed it already: it may be gone again since."""
        if self._unseen(resource):
            self.put(resource)

    def drop(self, resource: R) -> None:
        """The object is gone, unless another of that name has been made since."""
        key = key_of(resource)
        before: Any = self._items.get(key)
        if before is not None and before.metadata.uid == resource.metadata.uid:  # type: ignore[attr-defined]
            self._replace(key, before, None)

    async def run(self) -> None:
        """List, then watch, for ever; a lost watch resumes, an expired one lists again."""
        backoff = Backoff(base=0.1, limit=10.0)
        version: str | None = None
        while True:
            try:
                version = version or await self._list()
                async for change in self._store.watch(self.type, version):
                    version = self._absorb(change)
                    backoff.reset("watch")
                    if change.unreadable is not None and change.type != "DELETED":
                        await self._tell(change.unreadable)
            except Expired:
                version = None
            except ModelwrightError as error:
                log.warning("watch of %s: %s", self.type.__name__, error.message)
            except Exception:  # one kind that cannot be followed must not end the others
                log.exception("watch of %s: unexpected error, listing again", self.type.__name__)
                version = None
            await asyncio.sleep(backoff.next("watch"))

    async def _list(self) -> str:
        listing = await self._store.list(self.type)
        version = self._fill(listing)
        for unreadable in listing.unreadable:
            await self._tell(unreadable)
        return version

    async def _tell(self, unreadable: Unreadable) -> None:
        """It has no status that could be written: an Event says it to who looks at the object."""
        kind = kind_of(self.type)
        where = f"{kind.kind} {unreadable.namespace}/{unreadable.name}"
        log.error("%s is left alone: %s", where, unreadable.message)
        message = f"this object is left alone: {unreadable.message}; mend it with kubectl edit, or make it anew"
        event = Event(
            api_version=kind.api_version,
            kind=kind.kind,
            namespace=unreadable.namespace,
            name=unreadable.name,
            uid=unreadable.uid,
            type="Warning",
            reason="NotReadable",
            message=message[:EVENT_LIMIT],
        )
        try:
            await self._store.record(event)
        except ModelwrightError as error:
            log.warning("could not say so in an Event of %s: %s", where, error.message)

    def _fill(self, listing: Listing[R]) -> str:
        self.unreadable = {item.uid for item in listing.unreadable}
        for resource in listing.items:
            self.put(resource)
        present = {key_of(resource) for resource in listing.items}
        self._seen = int(listing.version)
        for gone in [item for key, item in self._items.items() if key not in present and not self._unseen(item)]:
            self.drop(gone)
        self.synced.set()
        return listing.version

    def _unseen(self, resource: Any) -> bool:
        """Whether this was written after all that listing and watch have shown."""
        return int(resource.metadata.resource_version) > self._seen

    def _absorb(self, change: Change[R]) -> str:
        if change.unreadable is not None:
            self._pass_over(change.unreadable, gone=change.type == "DELETED")
        elif change.resource is not None:
            self.unreadable.discard(change.resource.metadata.uid)  # type: ignore[attr-defined]
        if change.resource is not None and change.type == "DELETED":
            self.drop(change.resource)
        elif change.resource is not None:
            self.put(change.resource)
        self._seen = int(change.version)
        return change.version

    def _pass_over(self, unreadable: Unreadable, *, gone: bool) -> None:
        """What was known of it before is true no more."""
        (self.unreadable.discard if gone else self.unreadable.add)(unreadable.uid)
        key = (unreadable.namespace, unreadable.name)
        before: Any = self._items.get(key)
        if before is not None and before.metadata.uid == unreadable.uid:
            self._replace(key, before, None)

    def _replace(self, key: ObjectKey, before: R | None, after: R | None) -> None:
        if after is None:
            del self._items[key]
        else:
            self._items[key] = after
        for name, index in self._indexes.items():
            self._reindex(name, key, set(index(before)) if before else set(), set(index(after)) if after else set())
        for listener in self._listeners:
            listener(before, after)

    def _reindex(self, name: str, key: ObjectKey, before: set[ObjectKey], after: set[ObjectKey]) -> None:
        entries = self._indexed[name]
        for gone in before - after:
            entries[gone].discard(key)
            if not entries[gone]:
                del entries[gone]
        for new in after - before:
            entries.setdefault(new, set()).add(key)
