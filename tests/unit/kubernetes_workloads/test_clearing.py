"""What builds have left goes after the builds that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.kubernetes.waiting import beside, until

from modelwright.adapters.kubernetes.workloads import clearing
from modelwright.adapters.kubernetes.workloads.clearing import Clearing
from modelwright.adapters.kubernetes.workloads.tasks import Key
from modelwright.ports.errors import Unavailable

pytestmark = pytest.mark.anyio
KEY = ("uid", "build-1")


class World:
    """Builds wait or not; what has been cleared away, and how often that is to fail first."""

    def __init__(self) -> None:
        self.waiting = True
        self.cleared: list[Key] = []
        self.failures = 0
        self.clearing = Clearing(self.clear, lambda: self.waiting)

    async def clear(self, key: Key) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the API server does not answer")
        self.cleared.append(key)


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(clearing, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(clearing, "AGAIN_SECONDS", 0.01)
    world = World()
    async with beside(world.clearing.run()):
        yield world


async def test_it_is_put_off_while_builds_wait_and_done_when_none_does(world: World) -> None:
    world.clearing.put_off(KEY)
    await asyncio.sleep(0.05)
    assert not world.cleared
    assert world.clearing.holds(KEY)
    world.waiting = False
    await until(lambda: world.cleared == [KEY] and not world.clearing.holds(KEY))


async def test_it_is_put_off_for_so_long_and_no_longer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearing, "MOST_SECONDS", 0.01)
    world.clearing.put_off(KEY)
    await until(lambda: world.cleared == [KEY])


async def test_what_cannot_be_removed_now_is_removed_later(world: World) -> None:
    world.failures, world.waiting = 2, False
    world.clearing.put_off(KEY)
    await until(lambda: world.cleared == [KEY])


async def test_who_needs_the_name_has_it_removed_at_once(world: World) -> None:
    world.clearing.put_off(KEY)
    await world.clearing.now(KEY)
    assert world.cleared == [KEY]
    await world.clearing.now(KEY)
    assert world.cleared == [KEY]
