"""Changes in the making: what a batch of writes will do once it is durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from modelwright.adapters.embedded.history import Change, Entry, Key
from modelwright.adapters.embedded.index import Index

Object = dict[str, Any]
State = Mapping[str, Mapping[tuple[str, str], Entry]]


class _Owner(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct):
    uid: str = ""
    owners: list[_Owner] = msgspec.field(name="ownerReferences", default_factory=list)


class _Identity(msgspec.Struct):
    metadata: _Metadata


_identity = msgspec.json.Decoder(_Identity)


def entry_of(value: bytes, version: int) -> Entry:
    """The entry of an encoded object. Raises msgspec.DecodeError or ValidationError if it is none."""
    metadata = _identity.decode(value).metadata
    return Entry(value, version, metadata.uid, tuple(owner.uid for owner in metadata.owners))


def decode(entry: Entry) -> Object:
    """The object of an entry: a fresh one, to be changed at will."""
    value: Object = msgspec.json.decode(entry.value)
    return value


class Transaction:
    """Reads what is published and what this batch has changed; collects changes, each with a version of its own."""

    def __init__(self, published: State, index: Index, version: int) -> None:
        self._published = published
        self._version = version
        self._mine: dict[Key, Entry | None] = {}
        self.index = index
        self.changes: list[Change] = []

    def get(self, key: Key) -> Entry | None:
        if key in self._mine:
            return self._mine[key]
        return self._published.get(key[0], {}).get(key[1:])

    def keys(self, resource: str, namespace: str = "") -> list[Key]:
        """The keys of a resource, of one namespace if named, in order."""
        keys = {(resource, *rest) for rest in self._published.get(resource, {})}
        for key, entry in self._mine.items():
            if key[0] == resource:
                (keys.discard if entry is None else keys.add)(key)
        return sorted(key for key in keys if not namespace or key[1] == namespace)

    def content(self, namespace: str) -> list[Key]:
        """The keys of everything in a namespace, in order."""
        if not self.index.content(namespace):
            return []
        resources = {*self._published, *(key[0] for key in self._mine)}
        return [key for resource in sorted(resources) for key in self.keys(resource, namespace)]

    def put(self, key: Key, value: Object) -> Entry:
        """Create or replace an object; its resourceVersion is set."""
        previous = self.get(key)
        entry = self._encode(value)
        self._record("ADDED" if previous is None else "MODIFIED", key, entry, previous)
        return entry

    def remove(self, key: Key) -> Entry:
        """Remove an object that exists; returned as it last was, under the version of its removal."""
        previous = self.get(key)
        if previous is None:
            raise KeyError(key)
        entry = self._encode(decode(previous))
        self._record("DELETED", key, entry, previous)
        return entry

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self.changes)

    def roll_back(self, mark: int) -> None:
        """Forget all changes since `mark`."""
        while len(self.changes) > mark:
            change = self.changes.pop()
            self._mine[change.key] = change.previous
            new = None if change.type == "DELETED" else change.entry
            self.index.replace(change.key, new, change.previous)

    def _encode(self, value: Object) -> Entry:
        version = self._version + len(self.changes) + 1
        value["metadata"]["resourceVersion"] = str(version)
        return entry_of(msgspec.json.encode(value), version)

    def _record(
        self, type_: Literal["ADDED", "MODIFIED", "DELETED"], key: Key, entry: Entry, previous: Entry | None
    ) -> None:
        new = None if type_ == "DELETED" else entry
        self.changes.append(Change(type_, key, entry, previous))
        self._mine[key] = new
        self.index.replace(key, previous, new)
