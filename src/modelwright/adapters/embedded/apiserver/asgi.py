"""The shape of an ASGI application, and small helpers around requests and responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from modelwright.adapters.embedded.refusals import BadRequest, TooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = b"application/json"
MAX_BODY_BYTES = 3 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
_TRUE = frozenset({"true", "1", "t", "T", "TRUE", "True"})


class Request:
    """One HTTP request: its path in segments, its query and headers; the body is read once, by `body`."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.receive = receive
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            text = self.scope["query_string"].decode("latin-1")
            self._query = dict(parse_qsl(text, keep_blank_values=True))
        return self._query

    def flag(self, name: str) -> bool:
        """A boolean query parameter."""
        return self.query.get(name, "") in _TRUE

    def number(self, name: str) -> int | None:
        """A query parameter that is a number of at least 0. Raises BadRequest."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise BadRequest(f"invalid {name} {text[:40]!r}: a number is needed", reason="BadRequest")
        return int(text)

    def header(self, name: bytes) -> str:
        """A header by its lower-case name, empty if absent."""
        return header(self.scope, name)

    async def body(self) -> bytes:
        """The whole body. Raises TooLarge, and BadRequest if the client went away."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise BadRequest("the request ended before its body did", reason="BadRequest")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > MAX_BODY_BYTES:
                text = f"the body is larger than {MAX_BODY_BYTES} bytes: nothing was read of it"
                raise TooLarge(text, reason="RequestEntityTooLarge")
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)


class Response(msgspec.Struct, frozen=True):
    """A complete response."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close: bool = False

    async def __call__(self, send: Send) -> None:
        headers = [(b"content-type", self.content_type), (b"content-length", b"%d" % len(self.body)), *self.headers]
        if self.close:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Stream(msgspec.Struct, frozen=True):
    """A long response, made and sent in chunks; others get their turn between two of them."""

    parts: Iterable[bytes]

    async def __call__(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON)]})
        for chunk in _chunks(self.parts):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})


def _chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    for part in parts:
        chunk.append(part)
        size += len(part)
        if size >= CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    yield b"".join(chunk)


def header(scope: Scope, name: bytes) -> str:
    """A header of a request by its lower-case name, empty if absent."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""


def document(value: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(value), status)
