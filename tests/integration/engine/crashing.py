"""A crash before or after the n-th write or workload call: from then on nothing that the engine asks for happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Steps:
    """Counts the calls that change something; the crash comes at the one with this number, 0 for never."""

    def __init__(self, crash_at: int = 0, *, after: bool = False) -> None:
        self.count = 0
        self.crashed = asyncio.Event()
        self._crash_at = crash_at
        self._after = after

    async def take(self, call: Callable[[], Awaitable[T]]) -> T:
        self.count += 1
        last = self.count == self._crash_at
        if self.crashed.is_set() or (last and not self._after):
            await self._end()
        result = await call()
        if last:
            await self._end()
        return result

    async def _end(self) -> None:
        self.crashed.set()
        await asyncio.Event().wait()


class Counted:
    """Something whose calls of these names are steps; all else is passed on."""

    def __init__(self, inner: Any, steps: Steps, *names: str) -> None:
        self._inner = inner
        self._steps = steps
        self._names = names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found
        return lambda *args: self._steps.take(lambda: found(*args))


def store_of(inner: Any, steps: Steps) -> Any:
    return Counted(inner, steps, "create", "update_metadata", "update_spec", "update_status", "delete", "record")


def workloads_of(inner: Any, steps: Steps) -> Any:
    return Counted(inner, steps, "apply", "remove")
