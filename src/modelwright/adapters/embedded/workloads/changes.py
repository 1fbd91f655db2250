"""Who has news: bursts are merged, and every listener hears of everything since it began to listen."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

from modelwright.ports.workloads import Owner


class Changes:
    """`notify` never waits; a listener that is slow hears of an owner once, however often it has changed."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()
        self._closed = False

    def notify(self, owner: Owner) -> None:
        for listener in self._listeners:
            listener.add(owner)

    def subscribe(self) -> AsyncIterator[Owner]:
        """From now on, not from the first step of the iteration."""
        listener = _Listener()
        self._listeners.add(listener)
        if self._closed:
            listener.end()
        return self._listen(listener)

    def close(self) -> None:
        """End all listening."""
        self._closed = True
        for listener in list(self._listeners):
            listener.end()

    async def _listen(self, listener: _Listener) -> AsyncIterator[Owner]:
        try:
            while (owner := await listener.next()) is not None:
                yield owner
        finally:
            self._listeners.discard(listener)


class _Listener:
    def __init__(self) -> None:
        self._waiting: dict[Owner, None] = {}
        self._news = asyncio.Event()
        self._ended = False

    def add(self, owner: Owner) -> None:
        self._waiting[owner] = None
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def next(self) -> Owner | None:
        while not self._waiting:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        owner = next(iter(self._waiting))
        del self._waiting[owner]
        return owner
