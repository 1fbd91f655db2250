"""Writes Events after the builds that wait to begin: of a thousand at once, images come first.

An Event tells what has happened to who looks; nothing waits for it. Where many builds wait, Events are held back until
none waits any more, each for MOST_SECONDS at the latest, and then written in their order, with the times at which they
happened; while the API server is away they are kept, as long as that. When the process ends they are written as far as
a second goes, and those of one that is killed are lost.
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
AT_ONCE = 16
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
                    await self._flush()
            if self._held:
                log.warning("%d Events that waited were not written: the process ends", len(self._held))

    async def _write_due(self) -> None:
        while self._held and (_overdue(self._held[0]) or not self._busy()):
            held = self._held[0]  # it stays the first until it is written: what comes meanwhile waits behind it
            done = await self._written(held)
            self._held.popleft()
            if not done:  # the server is away, or wants none of this one: the next ones first, at the next look
                self._held.append(held)
                return

    async def _flush(self) -> None:
        while self._held:
            batch = list(self._held)[:AT_ONCE]
            done = await asyncio.gather(*map(self._written, batch))
            for _ in batch:
                self._held.popleft()
            self._held.extendleft(held for held, is_done in zip(batch, done, strict=True) if not is_done)
            if not all(done):
                return

    async def _written(self, held: Held) -> bool:
        """Whether it is done with: written, or such that it never can be."""
        try:
            await self._write(held.event, held.happened)
        except ModelwrightError as error:
            again = error.retryable and not _overdue(held)
            log.log(logging.DEBUG if again else logging.WARNING, "%s: %s", _named(held.event), error.message)
            return not again
        except Exception:  # one Event that nobody has thought of must not end the others
            log.exception("%s: unexpected error", _named(held.event))
        return True


def _overdue(held: Held) -> bool:
    return held.due <= asyncio.get_running_loop().time()


def _named(event: Event) -> str:
    return f"event {event.reason} of {event.namespace}/{event.name}"
