"""Answering requests as a plain ASGI application: no framework stands on their path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import msgspec

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

JSON = b"application/json"
SMALL = 1 << 20
TOGETHER = 4
"""Bodies longer than SMALL may not take more than so many times the limit of one."""
CLIENT_LEFT = 499  # nobody reads it; metrics count it apart from bad requests


class RequestError(Exception):
    """A request that is answered with an error; `message` is meant for the client.

    `status` is the HTTP status: 400 for a body that does not fit the model, 404, 405, 413, 503.
    """

    def __init__(self, message: str, status: int = 400, headers: Headers = ()) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.headers = headers


class Answer(NamedTuple):
    """An answer."""

    body: bytes
    status: int = 200
    headers: Headers = ()
    content_type: bytes = JSON


def json_answer(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """A value as JSON."""
    return Answer(msgspec.json.encode(value), status, headers)


async def send_answer(send: Send, answer: Answer) -> None:
    """Writes the answer."""
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", str(len(answer.body)).encode()),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


class Bodies:
    """Reads the bodies of requests, and bounds what those under way take together."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, scope: Message, receive: Receive, limit: int) -> bytes:
        """The whole body; raises RequestError: 413 beyond the limit, 503 if too much is under way, and if the client
        has left."""
        declared = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
        _within(b"", declared, limit)  # before the body: a client that waits for our word is told at once
        body, more = await _part(receive)
        if not more:
            return _within(body, len(body), limit)
        parts, size = [body], len(body)
        self._held += size
        try:
            while more:
                body, more = await _part(receive)
                size, self._held = size + len(body), self._held + len(body)
                parts.append(_within(body, size, limit))
                if size > SMALL and self._held > limit * TOGETHER:
                    raise RequestError("too many long bodies at once; try again later", 503, ((b"retry-after", b"1"),))
            return b"".join(parts)
        finally:
            self._held -= size


def allow(method: str, *methods: str) -> None:
    """Raises RequestError (405) for any other method."""
    if method not in methods:
        allowed = ", ".join(methods)
        raise RequestError(f"use {allowed} here, not {method}", 405, ((b"allow", allowed.encode()),))


async def _part(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise RequestError("the client closed the connection before its request was complete", CLIENT_LEFT)
    return message.get("body", b""), message.get("more_body", False)


def _within(body: bytes, size: int, limit: int) -> bytes:
    if size > limit:
        raise RequestError(f"the body is longer than {limit} bytes, the limit of this server", 413)
    return body
