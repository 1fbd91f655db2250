"""Who depends on whom: from the uid of an owner to what it owns, and how much a namespace holds."""

from __future__ import annotations

from collections.abc import Collection

from modelwright.adapters.embedded.history import Entry, Key


class Index:
    """Indexes over the newest state, not yet published changes included; only transactions may read it."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Key] = {}
        self._dependents: dict[str, set[Key]] = {}
        self._content: dict[str, int] = {}

    def replace(self, key: Key, old: Entry | None, new: Entry | None) -> None:
        """Take a change in; the same call with the entries swapped takes it back."""
        if old is not None:
            self._remove(key, old)
        if new is not None:
            self._add(key, new)

    def find(self, uid: str) -> Key | None:
        """The object of a uid."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Key]:
        """What names the uid as an owner, in order."""
        return sorted(self._dependents.get(uid, ()))

    def owned(self, uid: str) -> Collection[Key]:
        """The same, in no order and without a copy."""
        return self._dependents.get(uid, ())

    def content(self, namespace: str) -> int:
        """How many objects a namespace holds."""
        return self._content.get(namespace, 0)

    def owners(self) -> list[str]:
        """Every uid that is named as an owner, in order."""
        return sorted(self._dependents)

    def _add(self, key: Key, entry: Entry) -> None:
        self._by_uid[entry.uid] = key
        self._content[key[1]] = self._content.get(key[1], 0) + 1
        for owner in entry.owners:
            self._dependents.setdefault(owner, set()).add(key)

    def _remove(self, key: Key, entry: Entry) -> None:
        del self._by_uid[entry.uid]
        self._content[key[1]] -= 1
        if not self._content[key[1]]:
            del self._content[key[1]]
        for owner in set(entry.owners):
            self._dependents[owner].discard(key)
            if not self._dependents[owner]:
                del self._dependents[owner]
