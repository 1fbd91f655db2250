"""Real servers on loopback that say what a test tells them to."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httptools

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Asked(NamedTuple):
    """One request, as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@asynccontextmanager
async def listening(
    talk: Talk, tls: ssl.SSLContext | None = None, sock: socket.socket | None = None
) -> AsyncIterator[int]:
    """A server on a free port or on this socket, whose connections are all closed at the end."""
    talks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # noted here, for a task that is cancelled before its first step closes nothing
        talks[asyncio.create_task(connected(reader, writer))] = writer

    place = (None, None) if sock else ("127.0.0.1", 0)
    server = await asyncio.start_server(accepted, *place, sock=sock, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in talks.values():
            writer.transport.abort()
        await server.wait_closed()


async def asked(reader: asyncio.StreamReader) -> Asked | None:
    """The next request of a connection; None when there is none."""
    parser = _Request()
    while not parser.complete:
        data = await reader.read(1 << 16)
        if not data:
            return None
        parser.feed(data)
    return Asked(parser.method, parser.target, parser.headers, bytes(parser.body))


class _Request:
    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self.target, self.headers, self.body, self.complete = "", dict[str, str](), bytearray(), False

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    @property
    def method(self) -> str:
        return self._parser.get_method().decode()

    def on_url(self, url: bytes) -> None:
        self.target += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


def answer(body: Any, status: int = 200, **headers: str) -> bytes:
    """A whole answer with a JSON body."""
    data = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def refused(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    """A meta/v1 Status."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def chunked(*chunks: bytes, end: bool = True) -> bytes:
    """An answer in chunks, whole or cut short."""
    parts = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(parts) + (b"0\r\n\r\n" if end else b"")
