"""How much memory processes have, as one look at all of them shows it; shared pages are counted in each."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from modelwright.adapters.embedded.workloads.process import Stat, stat

Measure = Callable[["Table"], int]
"""Bytes, as a look shows them."""


class Table:
    """All processes at one moment."""

    def __init__(self, stats: dict[int, Stat]) -> None:
        self._stats = stats
        self._children: dict[int, list[int]] = {}
        for pid, found in stats.items():
            self._children.setdefault(found.parent, []).append(pid)

    @classmethod
    def look(cls) -> Table:
        return cls({pid: found for pid in psutil.pids() if (found := stat(pid)) is not None and found.alive})

    def of_session(self, session: int) -> int:
        """Resident bytes of the members of a session."""
        return sum(found.rss for found in self._stats.values() if found.session == session)

    def below(self, leader: int) -> int:
        """Resident bytes of what descends from a process, without it."""
        return sum(self._stats[pid].rss for pid in self._descendants([leader]) - {leader})

    def of_worker(self, leader: int, session: int) -> int:
        """Resident bytes of a worker in this session: the members of its group, and what descends from them."""
        group = [pid for pid, found in self._stats.items() if found.group == leader and found.session == session]
        return sum(self._stats[pid].rss for pid in self._descendants(group))

    def _descendants(self, roots: list[int]) -> set[int]:
        """They themselves, too."""
        found: set[int] = set()
        waiting = [pid for pid in roots if pid in self._stats]
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += self._children.get(pid, [])
        return found
