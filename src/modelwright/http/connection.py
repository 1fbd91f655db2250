"""HTTP/1.1 on one connection, as a client: httptools parses, asyncio moves.

About a tenth of the CPU per request of a general-purpose client. No redirects are followed, nothing is compressed,
and an answer whose end is not said (by a length or by chunks) is no answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple

import httptools

from modelwright.http.streams import Reader, hang_up

CHUNK = 1 << 18
HEAD_LIMIT = 1 << 16
IDLE_SECONDS = 30.0


class Response(NamedTuple):
    """A whole answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(Exception):
    """The connection ended, or made no sense, before the answer was whole.

    `began` says whether any of the answer had come.
    """

    def __init__(self, began: bool) -> None:
        self.began = began


class TooLong(Exception):
    """The answer's head or body is longer than it may be."""


class Connection:
    """One connection, one exchange at a time; the parser's callbacks fill in the answer."""

    def __init__(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._idle_since = 0.0
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._received = 0
        self._has_head = self._complete = self._began = self._kept_alive = self._excess = False

    # What the parser says -------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._excess = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._excess:
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if not self._excess:
            self._has_head = True
            self._kept_alive = self._parser.should_keep_alive()  # once all has come, the parser has forgotten
            self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if not self._excess:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        self._complete = True

    # What a client does ---------------------------------------------------------------------------------------------

    async def send(self, head: bytes, body: bytes) -> int:
        """Send a request; the status, once the head of the answer has come. Raises Lost, TooLong."""
        self._begin()
        if self._reader.unread:  # an answer to nothing must not become the answer to this
            raise Lost(began=False)
        # A server may answer before it has read all, and then read no more: it is listened to meanwhile.
        self._writer.writelines((head, body))
        while not self._has_head:
            await self._feed()
            if self._received > HEAD_LIMIT and not self._has_head:
                raise TooLong
        return self._status

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises Lost."""
        while True:
            if self._parts:
                parts, self._parts = self._parts, []
                yield b"".join(parts)
            if self._complete:
                return
            await self._feed()

    async def body(self, limit: int = 0) -> bytes:
        """The whole body, of `limit` bytes at most (0: any). Raises Lost, TooLong."""
        while not self._complete:
            if limit and self._received > limit + HEAD_LIMIT:
                raise TooLong
            await self._feed()
        return b"".join(self._parts)

    async def _feed(self) -> None:
        try:
            data = await self._reader.read(CHUNK)
            if data:
                self._began = True
                self._received += len(data)
                self._parser.feed_data(data)
                return
        except (OSError, httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass
        raise Lost(self._began)

    def rest(self) -> None:
        """It is not used from now on."""
        self._idle_since = time.monotonic()

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._complete and self._kept_alive and not self._excess and not self._reader.at_eof()

    @property
    def stale(self) -> bool:
        """Whether it has rested for too long, or the server has said something since."""
        return self._reader.at_eof() or self._reader.unread or time.monotonic() - self._idle_since > IDLE_SECONDS

    async def close(self) -> None:
        """Close at once."""
        await hang_up(self._writer)
