"""Who has been told of what: what an owner knows already is no news, and what nobody has looked at is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from modelwright.ports.workloads import WorkloadStatus

Seen = tuple[tuple[WorkloadStatus, object], ...]
"""The statuses of an owner's workloads, each with what else of it counts as a change."""


class News:
    """`seen` is how an owner's workloads are; `tell` is called with the UID of who should look, `forget` with that of
    whom nothing is left."""

    def __init__(self, seen: Callable[[str], Seen], tell: Callable[[str], None], forget: Callable[[str], None]) -> None:
        self._seen = seen
        self._tell = tell
        self._forget = forget
        self._told: dict[str, Seen] = {}
        self._at_work: Counter[str] = Counter()

    def changed(self, uid: str) -> None:
        """The cluster has changed something of this owner's, which need not mean that a status is another."""
        seen = self._seen(uid)
        if seen != self._told.get(uid, ()):
            self._tell(uid)
            self._remember(uid, seen)

    def wrote(self, uid: str) -> None:
        """We have written something of this owner's. Who had it written looks at what came of it; behind his back it
        can be more than what we wrote: a Pod that was quicker than the answer to the creation of its Job."""
        seen = self._seen(uid)
        if not self._at_work[uid] and _statuses(seen) != _statuses(self._told.get(uid, ())):
            self._tell(uid)
        self._remember(uid, seen)

    @contextmanager
    def applied(self, uid: str) -> Iterator[None]:
        """Meanwhile its owner has something applied, and looks when that is done."""
        with self._working(uid):
            yield
        self._remember(uid, self._seen(uid))

    @contextmanager
    def removed(self, uid: str, name: str) -> Iterator[None]:
        """Meanwhile its owner has this one removed, and looks at none of the others."""
        before = _statuses(self._seen(uid))
        with self._working(uid):
            yield
        seen = self._seen(uid)
        if _but(name, _statuses(seen)) != _but(name, before):
            self._tell(uid)
        self._remember(uid, seen)

    @contextmanager
    def _working(self, uid: str) -> Iterator[None]:
        self._at_work[uid] += 1
        try:
            yield
        finally:
            self._at_work[uid] -= 1
            if not self._at_work[uid]:
                del self._at_work[uid]

    def _remember(self, uid: str, seen: Seen) -> None:
        """This is no news any more."""
        if seen:
            self._told[uid] = seen
            return
        self._told.pop(uid, None)
        self._forget(uid)


def _statuses(seen: Seen) -> tuple[WorkloadStatus, ...]:
    return tuple(status for status, _ in seen)


def _but(name: str, statuses: tuple[WorkloadStatus, ...]) -> tuple[WorkloadStatus, ...]:
    return tuple(status for status in statuses if status.name != name)
