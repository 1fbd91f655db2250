"""A control loop that ends by itself must be seen to, and must not keep the rest from being closed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from modelwright.ports.errors import Unavailable
from modelwright.up.control_plane import run_engine
from modelwright.up.verb import ended_by_itself

pytestmark = pytest.mark.anyio


class Failing:
    """An engine one of whose tasks fails."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fail())

    async def _fail(self) -> None:
        raise RuntimeError("the one task that failed")


async def test_the_end_of_the_loop_is_one_error_that_says_why() -> None:
    engine: Any = Failing()
    closed: list[str] = []
    async with AsyncExitStack() as stack:
        stack.callback(closed.append, "the rest")
        failed = await run_engine(stack, engine)
        await asyncio.wait([failed], timeout=30)
        error = ended_by_itself(failed)
    assert closed == ["the rest"]
    assert isinstance(error, Unavailable)
    assert "the one task that failed" in error.message
    assert "start `modelwright up` again" in error.message
