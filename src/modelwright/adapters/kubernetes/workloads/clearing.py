"""Removes what builds have left, after the builds that wait to begin.

Removing a build takes Kubernetes half as many requests as making one. Where many wait, those that have ended well are
cleared away when none waits any more, each after MOST_SECONDS at the latest: images come first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from modelwright.adapters.kubernetes.workloads.tasks import Key
from modelwright.ports.errors import ModelwrightError

log = logging.getLogger(__name__)

MOST_SECONDS = 120.0
LOOK_SECONDS = 0.25
AT_ONCE = 8
AGAIN_SECONDS = 5.0


class Clearing:
    """`clear` removes one; `busy` says whether builds wait to begin. What is put off counts as removed."""

    def __init__(self, clear: Callable[[Key], Awaitable[None]], busy: Callable[[], bool]) -> None:
        self._clear = clear
        self._busy = busy
        self._due: dict[Key, float] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._not_before = 0.0

    def holds(self, key: Key) -> bool:
        """Whether it is put off, or being removed now."""
        return key in self._due or key in self._running

    def put_off(self, key: Key) -> None:
        """Remove it when its time has come."""
        self._due.setdefault(key, asyncio.get_running_loop().time() + MOST_SECONDS)

    async def now(self, key: Key) -> None:
        """It is removed when this returns, if it was put off. Raises what `clear` raises."""
        running = self._running.get(key)
        if running is not None:
            await asyncio.wait([running])
        if self._due.pop(key, None) is not None:
            await self._clear(key)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                self._begin(asyncio.get_running_loop().time())
        finally:
            for task in self._running.values():
                task.cancel()

    def _begin(self, now: float) -> None:
        if now < self._not_before:
            return
        for key, due in list(self._due.items()):
            if len(self._running) >= AT_ONCE or (due > now and self._busy()):
                return  # the first was put off first
            del self._due[key]
            self._running[key] = asyncio.create_task(self._remove(key))

    async def _remove(self, key: Key) -> None:
        try:
            await self._clear(key)
        except ModelwrightError as error:
            log.info("removing what the build %s has left: %s", key[1], error.message)
            self._not_before = asyncio.get_running_loop().time() + AGAIN_SECONDS
            self._due[key] = self._not_before
        finally:
            del self._running[key]
