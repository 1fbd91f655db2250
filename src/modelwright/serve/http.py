"""Uvicorn's HTTP protocol on a socket of ours: delayed accepting, and a drain that resets no connection.

`uvicorn.Server` accepts as soon as it starts and closes idle connections as soon as it ends. A rolling change on
one shared socket needs both later. This file is the only one that knows uvicorn's inner parts: `HttpToolsProtocol`
(its `cycle`, `transport` and callbacks) and `ServerState`.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

KEEP_ALIVE_SECONDS = 75
_STALLED_SECONDS = 75.0
_BACKLOG = 2048


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed, else None (asyncio's own)."""
    return uvicorn.Config(None, log_config=None).get_loop_factory()  # type: ignore[arg-type]


class Connection(HttpToolsProtocol):
    """A connection that knows when it was last used."""

    last_used = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.last_used = self.loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.last_used = self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        self.last_used = self.loop.time()
        super().on_response_complete()

    @property
    def computing(self) -> bool:
        """Whether a whole request has arrived and its answer is not yet written."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def end(self) -> None:
        """Closes it, at once if a client does not read the rest of its answer."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            self.transport.close()


class HttpServer:
    """An ASGI application on listening sockets that may belong to several processes."""

    def __init__(self, app: Any) -> None:
        self._config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._config.load()
        self._state = ServerState()
        self._closing = False
        self._listener: asyncio.AbstractServer | None = None
        self._ticker: asyncio.Task[None] | None = None

    async def accept(self, listener: socket.socket) -> None:
        """Starts to accept; the server owns the socket object from now on."""
        loop = asyncio.get_running_loop()
        self._refresh_headers()
        self._ticker = loop.create_task(self._tick())
        self._listener = await loop.create_server(
            lambda: Connection(self._config, self._state, {}, loop), sock=listener, backlog=_BACKLOG
        )

    def announce_close(self) -> None:
        """From now on each response says `Connection: close`."""
        self._closing = True
        self._refresh_headers()

    def stop_accepting(self) -> None:
        """Closes this process's copy of the listening socket; others that share it go on."""
        if self._listener is not None:
            self._listener.close()

    async def drain(self, idle_seconds: float) -> None:
        """Returns when all connections have ended; one is closed after `idle_seconds` without a request on it."""
        loop = asyncio.get_running_loop()
        while self._state.connections or self._state.tasks:
            self._close_idle(loop.time() - idle_seconds)
            await asyncio.sleep(0.02)
        if self._ticker is not None:
            self._ticker.cancel()

    def _close_idle(self, before: float) -> None:
        for connection in list(self._state.connections):
            if isinstance(connection, Connection) and not connection.computing and connection.last_used <= before:
                connection.end()

    def _refresh_headers(self) -> None:
        headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
        if self._closing:
            headers.append((b"connection", b"close"))
        self._state.default_headers = headers

    async def _tick(self) -> None:
        """Once a second: the date, and connections whose client never sends a whole request."""
        loop = asyncio.get_running_loop()
        while True:
            self._refresh_headers()
            self._close_idle(loop.time() - _STALLED_SECONDS)
            await asyncio.sleep(1)
