"""A queue of keys: each key is in it once, and is worked on by one worker at a time."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class KeyedQueue(Generic[K]):
    """Keys to work on, now or later.

    A key added while it is being worked on comes back once that work is done, so that no change is missed
    and no two workers ever hold the same key.
    """

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._active: set[K] = set()
        self._again: set[K] = set()
        self._later: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = 0
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or being worked on (keys for later do not count)."""
        return not self._ready and not self._active

    def add(self, key: K) -> None:
        """Work on this key as soon as possible."""
        self._later.pop(key, None)
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on this key in so many seconds, or sooner if it is asked for sooner."""
        due = asyncio.get_running_loop().time() + max(seconds, 0.0)
        if key in self._waiting or self._later.get(key, due + 1) <= due:
            return
        self._later[key] = due
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, key))
        self._wake.set()

    async def get(self) -> K:
        """The next key; `done` must follow."""
        while True:
            pause = self._promote()
            if self._ready:
                key = self._ready.popleft()
                self._waiting.discard(key)
                self._active.add(key)
                return key
            self._wake.clear()
            await self._sleep(pause)

    def done(self, key: K) -> None:
        """The work on this key has ended, however it ended."""
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        self._wake.set()

    def forget(self, key: K) -> None:
        """The key is of no interest any more; work under way goes on to its end."""
        self._later.pop(key, None)
        self._again.discard(key)

    async def _sleep(self, pause: float | None) -> None:
        try:
            async with asyncio.timeout(pause):  # wait_for of Python 3.11 can swallow a cancellation
                await self._wake.wait()
        except TimeoutError:
            return

    def _promote(self) -> float | None:
        """Move what has become due to the ready keys; the seconds until the next one is due."""
        now = asyncio.get_running_loop().time()
        while self._heap:
            due, _, key = self._heap[0]
            if self._later.get(key) != due:  # asked for sooner, or forgotten, since
                heapq.heappop(self._heap)
            elif due <= now:
                heapq.heappop(self._heap)
                self.add(key)
            else:
                return due - now
        return None
