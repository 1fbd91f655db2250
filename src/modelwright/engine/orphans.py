"""Stop what runs for nobody: workloads whose owner is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from modelwright.engine.backoff import Backoff
from modelwright.ports.workloads import Workloads

log = logging.getLogger(__name__)


class OrphanSweeper:
    """Looks at start and whenever `look` was called. Each owner's workloads are removed on their own:

    one that takes long to drain, or cannot be removed, keeps no other from going.
    """

    def __init__(self, workloads: Workloads, alive: Callable[[], set[str]]) -> None:
        self._workloads = workloads
        self._alive = alive
        self._asked = asyncio.Event()
        self._going: set[str] = set()

    def look(self) -> None:
        """There may be orphans now."""
        self._asked.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        self._asked.set()
        backoff = Backoff(limit=10.0)
        async with asyncio.TaskGroup() as group:
            while True:
                await self._asked.wait()
                self._asked.clear()
                try:
                    orphans = await self._orphans()
                except Exception as error:
                    log.warning("looking for what runs for nobody: %s", error)
                    self._asked.set()
                    await asyncio.sleep(backoff.next("look"))
                    continue
                backoff.reset("look")
                for uid in orphans - self._going:
                    self._going.add(uid)
                    group.create_task(self._remove_all(uid))

    async def _orphans(self) -> set[str]:
        """Owners first, then who is alive: an owner that comes between the two is not taken for an orphan."""
        owners = {owner.uid for owner in await self._workloads.owners()}
        return owners - self._alive()

    async def _remove_all(self, uid: str) -> None:
        """Remove all that runs for this owner, trying until nothing does."""
        backoff = Backoff(limit=60.0)
        while True:
            try:
                running = await self._workloads.observe(uid)
                if not running:
                    self._going.discard(uid)
                    return
                for status in running:
                    await self._workloads.remove(uid, status.name)
            except Exception as error:
                log.warning("stopping what runs for nobody: %s", error)
            await asyncio.sleep(backoff.next(uid))
