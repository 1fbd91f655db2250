"""Saying how a process is doing in its log, for who can see nothing else of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Self

import msgspec

AT_MOST_EVERY = 1.0
AGAIN_AFTER = 30.0


class Reporter:
    """Prints each new state as a line of JSON, and the last one again when other lines have followed it for a while.

    So the end of the log always has one. States that follow each other within a second share a line.
    """

    def __init__(self) -> None:
        self._state = b""
        self._told = b""
        self._told_at = float("-inf")
        self._lines = _Lines()
        self._ticker: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        logging.getLogger().addHandler(self._lines)
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        logging.getLogger().removeHandler(self._lines)
        if self._state != self._told:
            self._print()

    def tell(self, state: msgspec.Struct) -> None:
        """This is how it is now."""
        self._state = msgspec.json.encode(state)
        self._look()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(AT_MOST_EVERY / 4)
            self._look()

    def _look(self) -> None:
        silent = asyncio.get_running_loop().time() - self._told_at
        changed = self._state != self._told
        if (changed and silent >= AT_MOST_EVERY) or (self._lines.followed and silent >= AGAIN_AFTER):
            self._print()

    def _print(self) -> None:
        self._lines.followed = False
        self._told, self._told_at = self._state, asyncio.get_running_loop().time()
        with contextlib.suppress(OSError):  # whoever reads it may be gone
            print(self._told.decode(), flush=True)


class _Lines(logging.Handler):
    """Notices that something is logged."""

    followed = False

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        self.followed = True
