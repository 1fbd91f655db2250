"""Memory limits by sampling: what is over its limit is ended, as a container would be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from modelwright.adapters.embedded.workloads.memory import Measure, Table


class MemorySampler:
    """Looks at the resident memory of what has a limit, and at nothing while there is none."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._limits: dict[int, tuple[int, Measure, Callable[[int], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, pid: int, limit: int, exceeded: Callable[[int], None], measure: Measure | None = None) -> None:
        """Call `exceeded` once with the bytes in use when they are over the limit; 0 is no limit.

        `measure` says what counts, by default all of the session that `pid` leads.
        """
        if limit:
            self._limits[pid] = (limit, measure or (lambda table: table.of_session(pid)), exceeded)
            self._schedule()

    def release(self, pid: int) -> None:
        self._limits.pop(pid, None)

    def close(self) -> None:
        self._limits.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        if self._timer is None and self._limits:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._sample)

    def _sample(self) -> None:
        self._timer = None
        table = Table.look()
        for pid, (limit, measure, exceeded) in list(self._limits.items()):
            used = measure(table)
            if used > limit:
                self.release(pid)
                exceeded(used)
        self._schedule()
