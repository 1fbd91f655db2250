"""A mirror of one native kind: all objects of it that are ours, kept up to date by a watch."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Generic, TypeVar

import msgspec

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.resource import Resource
from modelwright.adapters.kubernetes.watch import Line, watch_once
from modelwright.adapters.kubernetes.workloads.kinds import Metadata, Object
from modelwright.adapters.kubernetes.workloads.labels import OURS
from modelwright.ports.errors import Expired, ModelwrightError, Unavailable

C = TypeVar("C", bound=Object)
Key = tuple[str, str]

log = logging.getLogger(__name__)

WATCH_SECONDS = 280
PAUSE_SECONDS = 0.5
FIRST_PAUSE, LAST_PAUSE = 0.1, 10.0


class _Identity(msgspec.Struct, frozen=True):
    metadata: Metadata


_IDENTITY = msgspec.json.Decoder(_Identity)


class Mirror(Generic[C]):
    """The objects by namespace and name, and by the UID of their owner.

    `changed` is called with each owner's UID whose object came, changed or went, as the server told it. What we write
    ourselves is put in with `wrote` and `deleted`, and is never undone by older news. `_gone` has the UIDs of what we
    have deleted for good and the watch has not seen go yet.
    """

    def __init__(
        self,
        client: KubernetesClient,
        resource: Resource,
        type_: type[C],
        changed: Callable[[str], None],
        *,
        watch_seconds: int = WATCH_SECONDS,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._client = client
        self._type = type_
        self._decoder = msgspec.json.Decoder(type_)
        self._changed = changed
        self._watch_seconds = watch_seconds
        self._items: dict[Key, C] = {}
        self._owned: dict[str, set[Key]] = {}
        self._gone: set[str] = set()
        self._seen = 0

    # Reading --------------------------------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> C | None:
        """The object, or None."""
        return self._items.get((namespace, name))

    def all(self) -> Iterable[C]:
        """All objects."""
        return self._items.values()

    def of(self, owner_uid: str) -> list[C]:
        """The objects that say this is their owner."""
        return [self._items[key] for key in self._owned.get(owner_uid, ())]

    # Our own writes -------------------------------------------------------------------------------------------------

    def decode(self, body: bytes | msgspec.Raw) -> C:
        """What is read of an object. Raises Unavailable."""
        try:
            return self._decoder.decode(body)
        except msgspec.DecodeError as fault:
            message = f"the API server gave a {self.resource.kind} that cannot be read: {fault}"
            raise Unavailable(message, reason="BadAnswer") from None

    def convert(self, body: JSON) -> C:
        """The same, of an object that is decoded already."""
        return msgspec.convert(body, self._type)

    def wrote(self, item: C) -> None:
        """Take in an object as the server has just given it, unless the watch has passed it: it may be gone since."""
        if self._unseen(item):
            self._put(item)

    def deleted(self, item: C, left: C | None) -> None:
        """We have deleted this very object: `left` is how it stands if something holds it, None if it is gone."""
        if left is not None:
            self.wrote(left)
            return
        self._gone.add(item.metadata.uid)
        self._drop(item.metadata)

    # Following ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List, then watch, for ever; a watch that is lost goes on, one that has expired lists again."""
        version, pause = "", FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            try:
                version = version or await self._fill()
                async with aclosing(self._watch(version)) as lines:
                    async for line in lines:
                        version = self._absorb(line) or version
                        pause = FIRST_PAUSE
                pause = max(FIRST_PAUSE, PAUSE_SECONDS - (asyncio.get_running_loop().time() - began))
            except Expired:
                version = ""
            except ModelwrightError as error:
                log.warning("watch of %s: %s", self.resource.qualified, error.message)
            except Exception:  # one kind that cannot be followed must not end the others
                log.exception("watch of %s: unexpected error, listing again", self.resource.qualified)
                version = ""
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)

    def _watch(self, version: str) -> AsyncGenerator[Line, None]:
        # Spread, so that the watches of all kinds do not begin anew in the same second.
        seconds = max(1, round(self._watch_seconds * random.uniform(0.9, 1.1)))  # noqa: S311 - no secret
        return watch_once(self._client, self.resource, version, OURS, seconds=seconds)

    async def _fill(self) -> str:
        present: set[str] = set()
        version = ""
        before, gone = list(self._items.values()), set(self._gone)
        async with aclosing(self._client.pages(self.resource, OURS)) as pages:
            async for page in pages:
                version = page.version
                for raw in page.items:
                    item = self._read(raw)
                    if item is not None:
                        present.add(item.metadata.uid)
                        self._absorb_item(item)
        self._seen = int(version)
        for item in before:
            if item.metadata.uid not in present and not self._unseen(item):
                self._go(item.metadata)
        self._gone -= gone - present
        self.synced.set()
        return version

    def _unseen(self, item: C) -> bool:
        """Whether it was written after all that list and watch have shown."""
        return int(item.metadata.resource_version) > self._seen

    def _absorb(self, line: Line) -> str:
        version = self._take(line)
        self._seen = int(version or self._seen)
        return version

    def _take(self, line: Line) -> str:
        """Take in one change; the version that it brings."""
        metadata = _IDENTITY.decode(line.object).metadata if line.type in ("BOOKMARK", "DELETED") else None
        if metadata is not None:
            if line.type == "DELETED":
                self._gone.discard(metadata.uid)
                self._go(metadata)
            return metadata.resource_version
        item = self._read(line.object)
        if item is None:
            return _IDENTITY.decode(line.object).metadata.resource_version
        self._absorb_item(item)
        return item.metadata.resource_version

    def _absorb_item(self, item: C) -> None:
        if self._put(item):
            self._tell(item.metadata)

    def _go(self, metadata: Metadata) -> None:
        before = self._drop(metadata)
        if before is not None:  # who had it, whatever its labels say now
            self._tell(before.metadata)

    def _tell(self, metadata: Metadata) -> None:
        """One object that whoever listens stumbles over must not keep all others from being seen."""
        try:
            self._changed(metadata.labels.owner_uid)
        except Exception:
            log.exception("%s %s/%s: unexpected error", self.resource.kind, metadata.namespace, metadata.name)

    def _read(self, raw: msgspec.Raw) -> C | None:
        """One object that cannot be read must not keep all others from being seen."""
        try:
            return self._decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError) as fault:
            log.error("passed over an object of %s: %s", self.resource.qualified, fault)
            return None

    # Keeping --------------------------------------------------------------------------------------------------------

    def _put(self, item: C) -> bool:
        """Whether it is news: an older state is not, nor is one of what we have deleted."""
        metadata = item.metadata
        key = (metadata.namespace, metadata.name)
        before = self._items.get(key)
        if metadata.uid in self._gone or not metadata.labels.owner_uid:
            return False
        if before is not None:
            if int(metadata.resource_version) <= int(before.metadata.resource_version):
                return False
            self._forget(before.metadata)
        self._items[key] = item
        self._owned.setdefault(metadata.labels.owner_uid, set()).add(key)
        return True

    def _drop(self, metadata: Metadata) -> C | None:
        before = self._items.get((metadata.namespace, metadata.name))
        if before is None or before.metadata.uid != metadata.uid:
            return None
        self._forget(before.metadata)
        return before

    def _forget(self, metadata: Metadata) -> None:
        key = (metadata.namespace, metadata.name)
        del self._items[key]
        keys = self._owned[metadata.labels.owner_uid]
        keys.discard(key)
        if not keys:
            del self._owned[metadata.labels.owner_uid]
