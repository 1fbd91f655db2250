"""HTTP/1.1 to one API server over kept-alive connections; the only file that knows how bytes travel.

httptools parses, asyncio moves: about a tenth of the CPU per request of a general-purpose client,
which matters to an operator that makes tens of thousands of small requests.
Redirects are not followed, since they would carry the credential elsewhere; nothing is compressed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

import httptools

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.credentials import Credentials
from modelwright.adapters.kubernetes.dial import Dialer, hang_up
from modelwright.ports.errors import Invalid, Unavailable

CHUNK = 1 << 18
MAX_CONNECTIONS = 32
IDLE_SECONDS = 30.0
REQUEST_SECONDS = 60.0
UNAUTHORIZED = 401


class Response(NamedTuple):
    """A whole answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(NamedTuple):
    """An answer whose body comes in chunks, as they arrive."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Request(NamedTuple):
    """`target` is path and query, already quoted."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""


class _Lost(Exception):
    """The connection ended before the answer did; `began` says whether any of it had come."""

    def __init__(self, began: bool) -> None:
        self.began = began


class _Connection:
    """One connection, one exchange at a time; the parser's callbacks fill in the answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.idle_since = 0.0
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._has_head = self._complete = self._began = self._kept_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._has_head = True
        self._kept_alive = self._parser.should_keep_alive()  # once the message is complete, the parser has forgotten

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self._complete = True

    async def send(self, head: bytes, body: bytes) -> int:
        """Send a request; the status, once the head of the answer has come."""
        self._begin()
        try:
            self._writer.write(head + body)
            await self._writer.drain()
        except OSError:
            raise _Lost(began=False) from None
        while not self._has_head:
            await self._feed()
        return self._parser.get_status_code()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            if self._parts:
                parts, self._parts = self._parts, []
                yield b"".join(parts)
            if self._complete:
                return
            await self._feed()

    async def body(self) -> bytes:
        while not self._complete:
            await self._feed()
        return b"".join(self._parts)

    async def _feed(self) -> None:
        try:
            data = await self._reader.read(CHUNK)
            if data:
                self._began = True
                self._parser.feed_data(data)
                return
        except (OSError, httptools.HttpParserError):
            pass
        raise _Lost(self._began)

    @property
    def reusable(self) -> bool:
        return self._complete and self._kept_alive and not self._reader.at_eof()

    @property
    def stale(self) -> bool:
        return self._reader.at_eof() or time.monotonic() - self.idle_since > IDLE_SECONDS

    async def close(self) -> None:
        await hang_up(self._writer)


class Transport:
    """Sends requests to the server of one access. Use it from one event loop, and close it."""

    def __init__(self, access: Access) -> None:
        self._dialer = Dialer(access)
        self._credentials = Credentials(access)
        self._impersonation = _impersonation(access)
        self._idle: deque[_Connection] = deque()
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self.url = f"{self._dialer.address.scheme}://{self._dialer.address.authority}"

    async def request(self, request: Request, seconds: float = REQUEST_SECONDS) -> Response:
        """The whole answer, whatever its status. Raises Unavailable, Forbidden, Invalid."""
        async with self._slots:
            try:
                async with asyncio.timeout(seconds):
                    response = await self._exchange(request)
                    if response.status == UNAUTHORIZED and self._credentials.renew():
                        response = await self._exchange(request)
                    return response
            except TimeoutError:
                raise Unavailable(f"{self.url} did not answer in {seconds:.0f} s", reason="TimedOut") from None

    @asynccontextmanager
    async def stream(self, request: Request, seconds: float = REQUEST_SECONDS) -> AsyncIterator[Stream]:
        """An answer in chunks on a connection of its own; `seconds` is the time until its head has come.

        Reading raises Unavailable if the connection is lost; how long to wait for a chunk is the caller's to say.
        """
        connection: _Connection | None = None
        try:
            try:
                async with asyncio.timeout(seconds):
                    connection = await self._connect()
                    status = await connection.send(await self._head(request), request.body)
            except TimeoutError:
                raise Unavailable(f"{self.url} did not answer in {seconds:.0f} s", reason="TimedOut") from None
            except _Lost:
                raise self._lost() from None
            if status == UNAUTHORIZED:
                self._credentials.renew()
            async with aclosing(self._chunks(connection)) as chunks:
                yield Stream(status, connection.headers, chunks)
        finally:
            if connection is not None:
                await connection.close()

    async def aclose(self) -> None:
        """Close all idle connections."""
        while self._idle:
            await self._idle.pop().close()

    async def _exchange(self, request: Request) -> Response:
        head = await self._head(request)
        connection, reused = await self._checkout()
        try:
            return await self._over(connection, head, request.body)
        except _Lost as lost:
            # The server may close a kept connection just as we use it: what changes nothing is asked once more.
            if not reused or lost.began or request.method != "GET":
                raise self._lost() from None
        try:
            return await self._over(await self._connect(), head, request.body)
        except _Lost:
            raise self._lost() from None

    async def _over(self, connection: _Connection, head: bytes, body: bytes) -> Response:
        try:
            status = await connection.send(head, body)
            response = Response(status, connection.headers, await connection.body())
        except BaseException:
            await connection.close()
            raise
        if connection.reusable:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            await connection.close()
        while self._idle and self._idle[0].stale:  # the newest is always taken first: the oldest may wait for ever
            await self._idle.popleft().close()
        return response

    async def _checkout(self) -> tuple[_Connection, bool]:
        while self._idle:
            connection = self._idle.pop()
            if not connection.stale:
                return connection, True
            await connection.close()
        return await self._connect(), False

    async def _connect(self) -> _Connection:
        return _Connection(*await self._dialer.dial(await self._credentials.current()))

    async def _chunks(self, connection: _Connection) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(connection.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except _Lost:
            raise self._lost() from None

    def _lost(self) -> Unavailable:
        return Unavailable(f"{self.url} closed the connection before it had answered", reason="ConnectionLost")

    async def _head(self, request: Request) -> bytes:
        address = self._dialer.address
        lines = [f"{request.method} {address.prefix}{request.target} HTTP/1.1", f"Host: {address.authority}"]
        lines += [f"{name}: {value}" for name, value in request.headers.items()]
        if address.scheme == "https":  # nothing secret over http
            token = (await self._credentials.current()).token
            lines += [f"Authorization: Bearer {token}"] if token else []
            lines += self._impersonation
        if request.body or request.method not in ("GET", "DELETE"):
            lines.append(f"Content-Length: {len(request.body)}")
        for line in lines:
            if not line.isprintable():
                raise Invalid(f"a header for {self.url} has a control character: {line.partition(':')[0]!r}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def _impersonation(access: Access) -> list[str]:
    login = access.login
    user = [f"Impersonate-User: {login.impersonate_user}"] if login.impersonate_user else []
    return user + [f"Impersonate-Group: {group}" for group in login.impersonate_groups]
