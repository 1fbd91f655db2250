"""Writes Events after the builds that wait to begin: of a thousand at once, images come first.

An Event tells what has happened to who looks; nothing waits for it. Where many builds wait, Events are held back until
none waits any more, each for MOST_SECONDS at the latest, and then written in their order, with the times at which they
happened. Those of a process that is killed meanwhile are lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from modelwright.ports.errors import ModelwrightError
from modelwright.ports.store import Event

log = logging.getLogger(__name__)

MOST_SECONDS = 120.0
LOOK_SECONDS = 0.25
MOST_HELD = 10_000
FLUSH_SECONDS = 1.0
"""How long what is held is still written when the process ends."""

Write = Callable[[Event, datetime], Awaitable[None]]


class Held(msgspec.Struct, frozen=True):
    """An Event with when it happened, and when it has to be written (seconds of the loop's clock)."""

    event: Event
    happened: datetime
    due: float


class EventQueue:
    """`write` writes one; `busy` says whether builds wait to begin."""

    def __init__(self, write: Write, busy: Callable[[], bool]) -> None:
        self._write = write
        self._busy = busy
        self._held: deque[Held] = deque()

    @property
    def held(self) -> int:
        """How many wait."""
        return len(self._held)

    async def record(self, event: Event) -> None:
        """Write it, now or later. Raises what `write` raises, if it is written now."""
        now = datetime.now(UTC)
        if (self._held or self._busy()) and len(self._held) < MOST_HELD:
            due = asyncio.get_running_loop().time() + MOST_SECONDS
            self._held.append(Held(event, now, due))
        else:
            await self._write(event, now)

    async def run(self) -> None:
        """Until cancelled; then what is held is written, as far as there is time."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                await self._write_due()
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_SECONDS):
                    while self._held:
                        await self._write_first()

    async def _write_due(self) -> None:
        while self._held:
            if self._held[0].due > asyncio.get_running_loop().time() and self._busy():
                return
            await self._write_first()

    async def _write_first(self) -> None:
        held = self._held[0]  # it stays the first until it is written: what comes meanwhile waits behind it
        try:
            await self._write(held.event, held.happened)
        except ModelwrightError as error:
            log.warning(
                "event %s of %s/%s: %s", held.event.reason, held.event.namespace, held.event.name, error.message
            )
        finally:
            self._held.popleft()
