"""How objects go away: finalizers, owner references, cascades, namespaces.

All of it happens in the transaction that starts it, so that no crash leaves a dependent without its owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from modelwright.adapters.embedded.history import Entry, Key
from modelwright.adapters.embedded.transaction import Transaction, decode

Object = dict[str, Any]
Policy = Literal["Background", "Foreground", "Orphan"]

FOREGROUND = "foregroundDeletion"
NAMESPACES = "namespaces"


class Reaper:
    """Deletes within one transaction. `knows(apiVersion, kind)` says whether the kind of an owner is served here."""

    def __init__(self, transaction: Transaction, now: str, knows: Callable[[str, str], bool]) -> None:
        self._transaction = transaction
        self._now = now
        self._knows = knows

    def delete(self, key: Key, policy: Policy = "Background") -> Entry:
        """Delete an object, or mark it where something holds it; returned as it is left, or as it last was."""
        if policy == "Orphan":
            self._orphan(key)
            policy = "Background"
        marked: list[Key] = []
        waiting: list[tuple[Key, Policy]] = [(key, policy)]
        while waiting:
            self._delete_one(*waiting.pop(), marked, waiting)
        for current in reversed(marked):
            self._unblock(current)
        return self._transaction.get(key) or self._removal(key)

    def settle(self, key: Key) -> None:
        """After a write: remove what is being deleted and held by nothing, and what has lost all its owners."""
        value = decode(self._existing(key))
        metadata = value["metadata"]
        if metadata.get("deletionTimestamp"):
            if not metadata.get("finalizers") and not self._content(key):
                self._remove(key)
        elif metadata.get("ownerReferences") and not any(map(self._lives, metadata["ownerReferences"])):
            self.delete(key)

    def sweep(self) -> None:
        """Collect everything whose owners are all gone."""
        index = self._transaction.index
        for uid in index.owners():
            if index.find(uid) is None:
                for key in index.dependents(uid):
                    self.settle(key)

    def _delete_one(self, key: Key, policy: Policy, marked: list[Key], waiting: list[tuple[Key, Policy]]) -> None:
        entry = self._transaction.get(key)
        if entry is None:
            return
        value = decode(entry)
        finalizers = [item for item in value["metadata"].get("finalizers") or [] if item != FOREGROUND]
        dependents = self._transaction.index.dependents(entry.uid) if policy == "Foreground" else []
        content = self._content(key)
        if dependents:
            finalizers.append(FOREGROUND)
        if not finalizers and not content:
            self._remove(key)
            return
        changed = self._mark(key, value, finalizers)
        waiting.extend((item, "Background") for item in reversed(content))
        if dependents:
            marked.append(key)
            if changed:
                waiting.extend(self._foreground(entry.uid, dependents))

    def _content(self, key: Key) -> list[Key]:
        """What a namespace holds; nothing for any other object."""
        return self._transaction.content(key[2]) if key[0] == NAMESPACES else []

    def _mark(self, key: Key, value: Object, finalizers: list[str]) -> bool:
        """Note that the object is being deleted and what holds it; false if that was so already."""
        metadata = value["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("finalizers", []) == finalizers:
            return False
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = self._now
            metadata["deletionGracePeriodSeconds"] = 0
            if "generation" in metadata:
                metadata["generation"] += 1
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
        if key[0] == NAMESPACES:
            value["status"] = {"phase": "Terminating"}
        self._transaction.put(key, value)
        return True

    def _foreground(self, uid: str, dependents: list[Key]) -> list[tuple[Key, Policy]]:
        """What to delete before an owner; a dependent that has another owner only loses this one."""
        waiting: list[tuple[Key, Policy]] = []
        for key in reversed(dependents):
            value = decode(self._existing(key))
            if self._others(value, uid):
                self._disown(key, value, uid)
                continue
            if FOREGROUND in value["metadata"].get("finalizers", []):
                # A circle: it is waiting for its owner, so its owner must not wait for it.
                self._stop_blocking(key, value, uid)
            waiting.append((key, "Foreground"))
        return waiting

    def _remove(self, key: Key) -> Entry:
        """Remove an object, and what goes away with it."""
        first = self._transaction.remove(key)
        removed = [(key, first)]
        while removed:
            key, entry = removed.pop()
            gone = [
                *(item for item in self._transaction.index.dependents(entry.uid) if self._owner_gone(item, entry.uid)),
                *(owner for uid in entry.owners if (owner := self._unblocked(uid)) is not None),
                *self._emptied(key[1]),
            ]
            # One object may be named twice; the second time it is gone.
            removed += [(item, self._transaction.remove(item)) for item in dict.fromkeys(gone)]
        return first

    def _owner_gone(self, key: Key, uid: str) -> bool:
        """Take note that an owner of this object is gone; true if the object can go too."""
        value = decode(self._existing(key))
        if self._others(value, uid):
            self._disown(key, value, uid)
            return False
        if not value["metadata"].get("finalizers"):
            return True
        if not value["metadata"].get("deletionTimestamp"):
            self._mark(key, value, value["metadata"]["finalizers"])
        return False

    def _unblock(self, key: Key) -> None:
        entry = self._transaction.get(key)
        if entry is not None and self._unblocked(entry.uid) is not None:
            self._remove(key)

    def _unblocked(self, uid: str) -> Key | None:
        """The object of a uid, if only its dependents held it and none does any more."""
        key = self._transaction.index.find(uid)
        if key is None:
            return None
        value = decode(self._existing(key))
        finalizers = value["metadata"].get("finalizers") or []
        if FOREGROUND not in finalizers or any(self._blocks(item, uid) for item in self._transaction.index.owned(uid)):
            return None
        finalizers.remove(FOREGROUND)
        if not finalizers:
            return key
        self._transaction.put(key, value)
        return None

    def _emptied(self, namespace: str) -> list[Key]:
        """The namespace, if it is being deleted and holds nothing any more."""
        key = (NAMESPACES, "", namespace)
        entry = self._transaction.get(key) if namespace and not self._transaction.index.content(namespace) else None
        if entry is None:
            return []
        metadata = decode(entry)["metadata"]
        return [key] if metadata.get("deletionTimestamp") and not metadata.get("finalizers") else []

    def _orphan(self, key: Key) -> None:
        uid = self._existing(key).uid
        for dependent in self._transaction.index.dependents(uid):
            self._disown(dependent, decode(self._existing(dependent)), uid)

    def _disown(self, key: Key, value: Object, uid: str) -> None:
        owners = [owner for owner in value["metadata"]["ownerReferences"] if owner["uid"] != uid]
        value["metadata"]["ownerReferences"] = owners
        if not owners:
            del value["metadata"]["ownerReferences"]
        self._transaction.put(key, value)

    def _stop_blocking(self, key: Key, value: Object, uid: str) -> None:
        for owner in value["metadata"]["ownerReferences"]:
            if owner["uid"] == uid:
                owner.pop("blockOwnerDeletion", None)
        self._transaction.put(key, value)

    def _blocks(self, key: Key, uid: str) -> bool:
        owners = decode(self._existing(key))["metadata"]["ownerReferences"]
        return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners)

    def _others(self, value: Object, uid: str) -> bool:
        """Whether an object has another owner than this one that lives."""
        owners = value["metadata"].get("ownerReferences") or []
        return any(owner["uid"] != uid and self._lives(owner) for owner in owners)

    def _lives(self, owner: Object) -> bool:
        # What we do not serve we cannot look up: never collect on a guess.
        if not self._knows(owner["apiVersion"], owner["kind"]):
            return True
        return self._transaction.index.find(owner["uid"]) is not None

    def _existing(self, key: Key) -> Entry:
        entry = self._transaction.get(key)
        if entry is None:
            raise KeyError(key)
        return entry

    def _removal(self, key: Key) -> Entry:
        changes = reversed(self._transaction.changes)
        return next(change.entry for change in changes if change.key == key and change.type == "DELETED")
