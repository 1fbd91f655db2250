"""Requests to one API server over kept-alive connections, with what its access asks for.

Redirects are not followed, since they would carry the credential elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import NamedTuple

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.credentials import Credentials
from modelwright.adapters.kubernetes.dial import Dialer
from modelwright.http.connection import Connection, Lost, Response, TooLong
from modelwright.http.pool import Pool
from modelwright.ports.errors import Invalid, Unavailable

MAX_CONNECTIONS = 32
REQUEST_SECONDS = 60.0
UNAUTHORIZED = 401
READS = ("GET", "HEAD", "OPTIONS")
Guard = Callable[[], None]
Answered = Callable[[str, int], None]

__all__ = ["Answered", "Guard", "Request", "Response", "Stream", "Transport"]


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


class Transport:
    """Sends requests to the server of one access. Use it from one event loop, and close it.

    `guard` is called right before each request that could change something is sent: what it raises keeps it from being
    sent. `answered` is told the method and the status of each answer.
    """

    def __init__(self, access: Access, *, guard: Guard | None = None, answered: Answered | None = None) -> None:
        self._dialer = Dialer(access)
        self._credentials = Credentials(access)
        self._impersonation = _impersonation(access)
        self._pool = Pool(self._connect)
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._guard = guard
        self._answered = answered
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
        connection: Connection | None = None
        try:
            try:
                async with asyncio.timeout(seconds):
                    connection = await self._connect()
                    status = await connection.send(await self._head(request), request.body)
            except TimeoutError:
                raise Unavailable(f"{self.url} did not answer in {seconds:.0f} s", reason="TimedOut") from None
            except (Lost, TooLong):
                raise self._lost() from None
            self._count(request, status)
            if status == UNAUTHORIZED:
                self._credentials.renew()
            async with aclosing(self._chunks(connection)) as chunks:
                yield Stream(status, connection.headers, chunks)
        finally:
            if connection is not None:
                await connection.close()

    async def aclose(self) -> None:
        """Close all idle connections."""
        await self._pool.aclose()

    async def _exchange(self, request: Request) -> Response:
        head, reads = await self._head(request), request.method in READS
        try:
            response = await self._pool.exchange(
                head, request.body, again=request.method == "GET", before=None if reads else self._guard
            )
        except (Lost, TooLong):
            raise self._lost() from None
        self._count(request, response.status)
        return response

    def _count(self, request: Request, status: int) -> None:
        if self._answered is not None:
            self._answered(request.method, status)

    async def _connect(self) -> Connection:
        return Connection(*await self._dialer.dial(await self._credentials.current()))

    async def _chunks(self, connection: Connection) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(connection.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (Lost, TooLong):
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
