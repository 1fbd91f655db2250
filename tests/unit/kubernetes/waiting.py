"""What tests of loops share: something that runs beside them, and waiting until something is so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def beside(life: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """It has begun when the block does, and is cancelled and over at its end."""
    task = asyncio.create_task(life)
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    """Wait for the condition, half a minute at most."""
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.001)
