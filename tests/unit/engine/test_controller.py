"""When something that fails is tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from modelwright.api.meta import Metadata
from modelwright.api.model import Model
from modelwright.engine.apply import Applier
from modelwright.engine.cache import Cache
from modelwright.engine.controller import Controller
from modelwright.engine.metrics import Metrics
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
