"""When something that fails is tried again, and what changes often is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from modelwright.api.meta import Metadata
from modelwright.api.model import Model, ModelStatus
from modelwright.engine.apply import Applier
from modelwright.engine.cache import Cache, ObjectKey
from modelwright.engine.controller import Controller
from modelwright.engine.metrics import Metrics
from modelwright.engine.pace import Pace
from modelwright.ports.errors import Unavailable
from modelwright.reconcile.plan import Plan

pytestmark = pytest.mark.anyio
KEY = ("default", "digits")
NOTHING: Any = None
DEADLINE_SECONDS = 20.0
"""Far less than the pause after twelve failures one after the other."""


async def test_many_failures_in_one_moment_are_one_failure() -> None:
    """Each change has an object tried at once; that it fails each time says no more than that it fails now."""
    cache: Cache[Any] = Cache(NOTHING, Model)
    cache.put(Model(metadata=Metadata(name=KEY[1], namespace=KEY[0], uid="u", resource_version="1")))
    tries, down = 0, True

    async def decide(_: Any) -> Plan:
        nonlocal tries
        tries += 1
        if down:
            raise Unavailable("the server is down")
        return Plan(untouched=True)

    async def tried_again() -> None:
        before = tries
        while tries == before:
            await asyncio.sleep(0)

    applier = Applier(NOTHING, NOTHING, {Model: cache}, NOTHING)
    controller = Controller(cache, decide, applier, Metrics(), outlived=lambda: None)
    task = asyncio.create_task(controller.run())
    try:
        for _ in range(12):
            controller.enqueue(KEY)
            await tried_again()
        down = False
        async with asyncio.timeout(DEADLINE_SECONDS):
            await tried_again()
    finally:
        task.cancel()
        await asyncio.wait([task])


class Written:
    """A Store of one Model that counts what is written of it."""

    def __init__(self, cache: Cache[Any]) -> None:
        self.count = 0
        self._cache = cache

    async def decide(self, model: Model) -> Plan:
        """Each look has something new to say, as after one more version."""
        return Plan(status=ModelStatus(versions=model.status.versions + 1))

    async def update_status(self, model: Model) -> Model:
        self.count += 1
        metadata = msgspec.structs.replace(model.metadata, resource_version=str(self.count + 1))
        return msgspec.structs.replace(model, metadata=metadata)


@asynccontextmanager
async def paced(pace: Pace[ObjectKey]) -> AsyncIterator[tuple[Controller, Written]]:
    cache: Cache[Any] = Cache(NOTHING, Model)
    cache.put(Model(metadata=Metadata(name=KEY[1], namespace=KEY[0], uid="u", resource_version="1")))
    written, workloads = Written(cache), QuietWorkloads()
    applier = Applier(cast("Any", written), cast("Any", workloads), {Model: cache}, NOTHING)
    controller = Controller(cache, written.decide, applier, Metrics(), outlived=lambda: None, pace=pace)
    task = asyncio.create_task(controller.run())
    try:
        yield controller, written
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_is_written_to_often_is_put_off_and_still_to_be_done() -> None:
    async with paced(Pace(2, 3600)) as (controller, written):
        await look(controller, written, 1)
        await look(controller, written, 2)
        for _ in range(50):
            controller.enqueue(KEY)
            await asyncio.sleep(0)
        assert written.count == 2
        assert not controller.idle


async def test_what_was_put_off_comes_again_by_itself() -> None:
    async with paced(Pace(1, 0.01)) as (controller, written):
        for count in range(1, 6):
            await look(controller, written, count)


async def look(controller: Controller, written: Written, count: int) -> None:
    controller.enqueue(KEY)
    await until(lambda: written.count == count and controller.idle)


class QuietWorkloads:
    """Runs nothing."""

    async def observe(self, _: str) -> tuple[Any, ...]:
        return ()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)
