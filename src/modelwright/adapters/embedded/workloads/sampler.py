"""Memory limits by sampling: a session that is over its limit is ended, as a container would be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from modelwright.adapters.embedded.workloads.process import resident_by_session


class MemorySampler:
    """Looks at the resident memory of the sessions that have a limit, and at nothing while there is none."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._limits: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, session: int, limit: int, exceeded: Callable[[int], None]) -> None:
        """Call `exceeded` once with the bytes in use when the session is over its limit; 0 is no limit."""
        if limit:
            self._limits[session] = (limit, exceeded)
            self._schedule()

    def release(self, session: int) -> None:
        self._limits.pop(session, None)

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
        used = resident_by_session()
        for session, (limit, exceeded) in list(self._limits.items()):
            if used.get(session, 0) > limit:
                self.release(session)
                exceeded(used[session])
        self._schedule()
