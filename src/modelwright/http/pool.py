"""Kept-alive connections to one server."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from modelwright.http.connection import Connection, Lost, Response


class Pool:
    """Opens connections with `connect`, and keeps those that can be used again. Use it from one event loop."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque()
        self._closed = False

    async def exchange(
        self, head: bytes, body: bytes, *, again: bool, limit: int = 0, before: Callable[[], None] | None = None
    ) -> Response:
        """The whole answer, whatever its status; its body has `limit` bytes at most (0: any).

        `again`: a request that changes nothing is sent once more if a kept connection turns out to be closed. A server
        may do that just as it is used. `before` is called once a connection is at hand, with nothing awaited between
        it and the sending: what it raises keeps the request from being sent.
        Raises Lost, TooLong, and what `connect` and `before` raise.
        """
        connection, reused = await self._checkout()
        try:
            return await self._over(connection, head, body, limit, before)
        except Lost as lost:
            if not reused or lost.began or not again:
                raise
        return await self._over(await self._connect(), head, body, limit, before)

    async def aclose(self) -> None:
        """Close all idle connections, and those that are in use as soon as they are not."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    async def _over(
        self, connection: Connection, head: bytes, body: bytes, limit: int, before: Callable[[], None] | None
    ) -> Response:
        try:
            if before is not None:
                before()
            status = await connection.send(head, body)
            response = Response(status, connection.headers, await connection.body(limit))
        except BaseException:
            await connection.close()
            raise
        if connection.reusable and not self._closed:
            connection.rest()
            self._idle.append(connection)
        else:
            await connection.close()
        while self._idle and self._idle[0].stale:  # the newest is always taken first: the oldest may wait for ever
            await self._idle.popleft().close()
        return response

    async def _checkout(self) -> tuple[Connection, bool]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.stale:
                return connection, True
            await connection.close()
        return await self._connect(), False
