"""Uvicorn's HTTP protocol on a socket of ours: delayed accepting, and a drain that resets no connection.

`uvicorn.Server` accepts as soon as it starts and closes idle connections as soon as it ends. A rolling change on
one shared socket needs both later. This file is the only one that knows uvicorn's inner parts: `HttpToolsProtocol`
(its `cycle`, `transport` and callbacks) and `ServerState`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from modelwright.http.listening import BACKLOG

KEEP_ALIVE_SECONDS = 75
HEAD_LIMIT = 1 << 16
_STALLED_SECONDS = 75.0
_BESIDE_BODY_LIMIT = 1 << 19  # framing and trailers between parts of a body: one reading brings half of it
_MOST_PIPELINED = 64
_MOST_CONNECTIONS = 4096
_MOST_TLS_CONNECTIONS = 1024  # each takes a quarter of a megabyte
_MOST_HANDSHAKES = 512
_QUICK_SECONDS = 2.0
_BREATH_SECONDS = 0.05
_HANDSHAKE_SECONDS = 10.0
_GOODBYE_SECONDS = 5.0
_ACCEPTED_AT_ONCE = 4

log = logging.getLogger("modelwright.server")

Secure = Callable[[], ssl.SSLContext | None]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where it is installed, else None (asyncio's own)."""
    return uvicorn.Config(None, log_config=None).get_loop_factory()  # type: ignore[arg-type]


class Connection(HttpToolsProtocol):
    """A connection that knows when it was last used, and takes nothing without end but bodies.

    Those are for the application to bound. A head that never ends, trailers behind a body, and requests that wait
    behind others would fill the memory before it sees them.
    """

    last_used = 0.0
    _in_head = True
    _head_since = 0.0
    _head_bytes = 0
    _beside_body = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.last_used = self._head_since = self.loop.time()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.last_used = self.loop.time()
        if self._in_head:
            if not self._head_bytes:
                self._head_since = self.last_used
            self._head_bytes += len(data)
        else:
            self._beside_body += len(data)
        super().data_received(data)
        too_long = self._head_bytes > HEAD_LIMIT if self._in_head else self._beside_body > _BESIDE_BODY_LIMIT
        if too_long and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large", b"the request's head is too long")

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Instead of uvicorn's, which is no JSON."""
        self._refuse(b"400 Bad Request", b"this is no HTTP request")

    def _refuse(self, status: bytes, said: bytes) -> None:
        body = b'{"error":"%s"}' % said
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, len(body)) + body)
        self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes behind a body means nothing here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MOST_PIPELINED:
            raise ValueError("too many requests at once")  # it is answered with 400, and the connection ends
        self._in_head, self._beside_body = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.last_used = self.loop.time()
        super().on_response_complete()

    @property
    def computing(self) -> bool:
        """Whether a whole request has arrived and its answer is not yet written."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    @property
    def stalled_since(self) -> float:
        """When it was last used, or began to send a head that is still not whole."""
        return self._head_since if self._in_head and self._head_bytes else self.last_used

    def close_after_answer(self) -> None:
        """Tells the client to close with the answer that it waits for, if it waits for one."""
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False

    def end(self) -> None:
        """Closes it, at once if a client does not read the rest of its answer."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            self.transport.close()


class Acceptor:
    """Accepts connections on a listening socket that may belong to several processes.

    `loop.create_server` would take all waiting connections at once, which leaves none for the other replicas, and
    would lose those that it has accepted but not yet set up when it is closed (Python 3.11). With `secure`, each
    connection speaks TLS with the context that it gives then, and is closed where it gives none.
    """

    def __init__(
        self, listener: socket.socket, connect: Callable[[], asyncio.Protocol], secure: Secure | None = None
    ) -> None:
        self._listener = listener
        self._connect = connect
        self._secure = secure
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self.connecting: dict[asyncio.Task[Any], float] = {}
        """Connections that are being set up, and since when; the longest first."""
        listener.settimeout(0)
        listener.listen(BACKLOG)
        self._resume()

    def close(self) -> None:
        """Closes this process's copy of the socket; others that share it go on."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
        self._listener.close()

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._crowded():  # they wait in the queue
                self._rest(_BREATH_SECONDS)
                return
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptors or no memory left: the connections wait in the queue
                log.error("cannot accept connections: %s", error)
                self._rest(1.0)
                return
            connection.settimeout(0)
            task = self._loop.create_task(self._set_up(connection))
            self.connecting[task] = self._loop.time()
            task.add_done_callback(lambda task: self.connecting.pop(task, None))

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(seconds, self._resume)

    def _crowded(self) -> bool:
        """Whether as many shake hands as there is memory for; one that takes its time makes room for another."""
        if self._secure is None or len(self.connecting) < _MOST_HANDSHAKES:
            return False
        task, since = next(iter(self.connecting.items()))
        if self._loop.time() - since < _QUICK_SECONDS:
            return True
        del self.connecting[task]
        task.cancel()
        return False

    async def _set_up(self, connection: socket.socket) -> None:
        try:
            if self._secure is None:
                await self._loop.connect_accepted_socket(self._connect, connection)
            else:
                await self._shake_hands(connection, self._secure())
        except OSError:
            connection.close()  # the client has gone already, or speaks no TLS

    async def _shake_hands(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        if context is None:
            connection.close()
            return
        await self._loop.connect_accepted_socket(
            self._connect,
            connection,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_GOODBYE_SECONDS,
        )


class HttpServer:
    """An ASGI application on a listening socket."""

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
        self._acceptor: Acceptor | None = None
        self._ticker: asyncio.Task[None] | None = None

    def accept(self, listener: socket.socket, secure: Secure | None = None) -> None:
        """Starts to accept; the server owns the socket object from now on. `secure`: see Acceptor."""
        loop = asyncio.get_running_loop()
        self._refresh_headers()
        self._ticker = loop.create_task(self._tick())
        most = _MOST_CONNECTIONS if secure is None else _MOST_TLS_CONNECTIONS

        def connect() -> Connection:
            if len(self._state.connections) >= most:
                self._end_idlest()
            return Connection(self._config, self._state, {}, loop)

        self._acceptor = Acceptor(listener, connect, secure)

    def announce_close(self) -> None:
        """From now on each response says `Connection: close`, also those to requests that have begun."""
        self._closing = True
        self._refresh_headers()
        for connection in self._connections():
            connection.close_after_answer()

    def stop_accepting(self) -> None:
        """Closes this process's copy of the listening socket."""
        if self._acceptor is not None:
            self._acceptor.close()

    async def drain(self, idle_seconds: float) -> None:
        """Returns when all connections have ended; one is closed after `idle_seconds` without a request on it."""
        loop = asyncio.get_running_loop()
        while self._state.connections or self._state.tasks or (self._acceptor and self._acceptor.connecting):
            self._close_idle(loop.time() - idle_seconds)
            await asyncio.sleep(0.02)
        if self._ticker is not None:
            self._ticker.cancel()

    async def close(self) -> None:
        """Ends it at once, except for answers that are being computed."""
        self.stop_accepting()
        for task in tuple(self._acceptor.connecting) if self._acceptor else ():
            task.cancel()
        await self.drain(0.0)

    def _connections(self) -> list[Connection]:
        return [connection for connection in self._state.connections if isinstance(connection, Connection)]

    def _close_idle(self, before: float) -> None:
        for connection in self._connections():
            if not connection.computing and connection.stalled_since <= before:
                connection.end()

    def _end_idlest(self) -> None:
        """Makes room: who waits for an answer keeps its place."""
        waiting = [connection for connection in self._connections() if not connection.computing]
        if waiting:
            min(waiting, key=lambda connection: connection.stalled_since).end()

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
