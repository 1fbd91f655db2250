"""What a watch has shown by now: a list each moment would cost the server as much as many builds."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.resource import Resource
from modelwright.adapters.kubernetes.watch import watch_once

SECONDS = 600.0
PROGRESS_SECONDS = 5.0


class Seen:
    """Names, each with when it was first seen (seconds of `perf_counter`)."""

    def __init__(self) -> None:
        self.when: dict[str, float] = {}
        self._changed = asyncio.Event()

    async def named(self, name: str) -> float:
        """When this one was seen, once it is."""
        await self._until(lambda: name in self.when)
        return self.when[name]

    async def so_many(self, count: int) -> None:
        """Until there are so many; says from time to time how many there are."""
        told = time.monotonic()

        def enough() -> bool:
            nonlocal told
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"    {len(self.when)} of {count}", file=sys.stderr, flush=True)
            return len(self.when) >= count

        await self._until(enough)

    async def _until(self, so: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not so():
                self._changed.clear()
                await self._changed.wait()

    def add(self, name: str) -> None:
        self.when.setdefault(name, time.perf_counter())
        self._changed.set()


@contextlib.asynccontextmanager
async def watched(
    client: KubernetesClient, resource: Resource, where: Selection, name: Callable[[bytes], str]
) -> AsyncIterator[Seen]:
    """Follows the objects; `name` says as what one is seen, empty if it is not what is waited for."""
    seen = Seen()
    _, since = await client.list_bytes(resource, where)

    async def follow() -> None:
        async for line in watch_once(client, resource, since, where, seconds=3600):
            found = name(bytes(line.object)) if line.type in ("ADDED", "MODIFIED") else ""
            if found:
                seen.add(found)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
