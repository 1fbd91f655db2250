"""Tasks that could not be made in one go: each goes on when something of it has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from modelwright.adapters.kubernetes.workloads.tasks import Key
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.workloads import BuildImage, Owner, Task

log = logging.getLogger(__name__)

AT_ONCE = 8
Make = Callable[[Task, BuildImage], Awaitable[None]]


class Unfinished:
    """`make` goes on with a Task, and adds it again if that is not its end; `failed` is told whose could not."""

    def __init__(self, make: Make, failed: Callable[[Owner], None]) -> None:
        self._make = make
        self._failed = failed
        self._waiting: dict[str, dict[str, tuple[Task, BuildImage]]] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._waiting or self._running)

    def add(self, task: Task, action: BuildImage) -> None:
        """Go on with it at the next news of its owner."""
        self._waiting.setdefault(task.owner.uid, {})[task.name] = (task, action)

    def holds(self, uid: str, name: str) -> bool:
        """Whether it waits to go on, or goes on now: nobody else should then."""
        return (uid, name) in self._running or name in self._waiting.get(uid, {})

    def wake(self, uid: str) -> None:
        """There is news of this owner."""
        for task, action in self._waiting.pop(uid, {}).values():
            key = (uid, task.name)
            if key in self._running:
                self.add(task, action)
            else:
                self._running[key] = asyncio.create_task(self._go_on(key, task, action))

    async def drop(self, uid: str, name: str) -> None:
        """It is not wanted any more; nothing more of it is made when this returns."""
        self._waiting.get(uid, {}).pop(name, None)
        if not self._waiting.get(uid, True):
            del self._waiting[uid]
        running = self._running.get((uid, name))
        if running is not None:
            await asyncio.wait([running])
            await self.drop(uid, name)  # what ended may have been added again

    async def aclose(self) -> None:
        """Go on with none."""
        self._waiting.clear()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _go_on(self, key: Key, task: Task, action: BuildImage) -> None:
        try:
            async with self._slots:
                await self._make(task, action)
        except ModelwrightError as error:
            log.info("going on with %s/%s: %s", task.owner.namespace, task.name, error.message)
            self._failed(task.owner)  # whoever wants it applies it again, and is told
        finally:
            del self._running[key]
