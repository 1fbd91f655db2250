"""Who is taken for gone, and who is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from modelwright.engine.orphans import OrphanSweeper
from modelwright.ports.workloads import Owner, TaskStatus

pytestmark = pytest.mark.anyio


def owner(uid: str) -> Owner:
    return Owner("v1", "Kind", "default", uid, uid)


class Slow:
    """Workloads that take their time to say who has any, as a cluster does: `meanwhile` happens then."""

    def __init__(self, meanwhile: Callable[[], None], *owners: str) -> None:
        self._meanwhile = meanwhile
        self.owning = set(owners)

    async def owners(self) -> frozenset[Owner]:
        await asyncio.sleep(0)
        self._meanwhile()
        return frozenset(map(owner, self.owning))

    async def observe(self, owner_uid: str) -> tuple[TaskStatus, ...]:
        return (TaskStatus(name="task", phase="Running"),) if owner_uid in self.owning else ()

    async def remove(self, owner_uid: str, name: str) -> None:
        self.owning.discard(owner_uid)


async def test_an_owner_that_comes_while_it_looks_is_no_orphan() -> None:
    alive = {"old"}

    def comes() -> None:
        alive.add("new")
        workloads.owning.add("new")

    workloads: Any = Slow(comes, "old", "gone")
    sweeper = OrphanSweeper(workloads, lambda: set(alive))
    task = asyncio.create_task(sweeper.run())

    async def removed() -> None:
        while "gone" in workloads.owning:
            await asyncio.sleep(0)

    await asyncio.wait_for(removed(), 30)
    task.cancel()
    await asyncio.wait([task])
    assert workloads.owning == {"old", "new"}
