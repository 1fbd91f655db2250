"""Who has news: bursts are merged, and every listener hears of everything since it began to listen."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator

from modelwright.ports.workloads import Owner


class Changes:
    """`tell` never waits; a listener that is slow hears of an owner once, however often it has changed."""

    def __init__(self) -> None:
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()

    def tell(self, owner: Owner) -> None:
        """This owner has news."""
        for listener in self._listeners:
            listener.waiting[owner] = None
            listener.news.set()

    def listen(self) -> AsyncIterator[Owner]:
        """From now on, not from the first step of the iteration."""
        listener = _Listener()
        self._listeners.add(listener)
        return listener


class _Listener:
    def __init__(self) -> None:
        self.waiting: dict[Owner, None] = {}
        self.news = asyncio.Event()

    def __aiter__(self) -> _Listener:
        return self

    async def __anext__(self) -> Owner:
        while not self.waiting:
            self.news.clear()
            await self.news.wait()
        owner = next(iter(self.waiting))
        del self.waiting[owner]
        return owner
