"""The newest changes of the store, and who waits for more of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Literal

import msgspec

from modelwright.ports.errors import Expired, Unavailable

Key = tuple[str, str, str]
"""Resource (`plural.group`), namespace (empty if it has none), name."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One object as stored: its JSON, and what the indexes need from it."""

    value: bytes
    version: int
    uid: str
    owners: tuple[str, ...]


class Change(msgspec.Struct, frozen=True):
    """One change: a deletion's `entry` is the object as it last was, under the version of the deletion."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: Key
    entry: Entry
    previous: Entry | None

    @property
    def version(self) -> int:
        return self.entry.version


class History:
    """The newest `keep` changes, whose versions are consecutive.

    Watchers read it at their own pace: one that misses a change because it is no longer kept is told to list again.
    """

    def __init__(self, changes: list[Change], keep: int) -> None:
        self._changes = changes
        self._keep = keep
        self._news: dict[str, asyncio.Future[None]] = {}
        self.version = changes[-1].version if changes else 0
        self._newest = {change.key[0]: change.version for change in changes}
        self._forgotten: dict[str, int] = {}
        self._loaded_from = self.compacted
        self.closed = False

    @property
    def compacted(self) -> int:
        """The version before the oldest change that is kept."""
        return self.version - len(self._changes)

    def surplus(self, coming: int) -> int:
        """The version up to which to forget when `coming` changes are added; done by quarters, so mostly none."""
        if len(self._changes) + coming <= self._keep + self._keep // 4:
            return self.compacted
        return self.version + coming - self._keep

    def publish(self, changes: list[Change], forget: int) -> None:
        """Add changes that are durable, and wake those who wait for them."""
        drop = forget - self.compacted
        self._changes.extend(changes)
        for change in self._changes[:drop] if drop > 0 else ():
            self._forgotten[change.key[0]] = change.version
        if drop > 0:
            del self._changes[:drop]
        self.version = changes[-1].version
        for change in changes:
            self._newest[change.key[0]] = change.version
        for resource in {change.key[0] for change in changes}:
            self._wake(resource)

    def since(self, version: int, resource: str) -> list[Change]:
        """The changes of a resource after `version`, oldest first. Raises Expired."""
        oldest = max(self._loaded_from, self._forgotten.get(resource, 0))
        if not oldest <= version <= self.version:
            raise Expired(f"too old resource version: {version} ({oldest}). List again and watch from there")
        after = self._changes[max(version - self.compacted, 0) :]
        return [change for change in after if change.key[0] == resource]

    def undo(self, version: int, resource: str) -> Iterator[tuple[Key, Entry | None]]:
        """What to put back, newest first, to see a resource as it was at `version`. Raises Expired."""
        for change in reversed(self.since(version, resource)):
            yield change.key, change.previous

    async def wait_after(self, version: int, resource: str, seconds: float) -> bool:
        """Wait for a change of a resource after `version`; False if none came in time.

        Raises Unavailable when the store is closed.
        """
        if self.closed:
            raise Unavailable("the control plane is stopping: watch again", reason="Stopping")
        if self._newest.get(resource, 0) > version:
            return True
        news = self._news.get(resource)
        if news is None:
            news = self._news[resource] = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((news,), timeout=seconds)
        return bool(done)

    def close(self) -> None:
        """Wake everybody: there will be no more changes."""
        self.closed = True
        for resource in list(self._news):
            self._wake(resource)

    def _wake(self, resource: str) -> None:
        news = self._news.pop(resource, None)
        if news is not None and not news.done():
            news.set_result(None)
