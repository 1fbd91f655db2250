"""HTTP/1.1 as both sides of the fault proxy speak it: whole messages, and answers that come in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http import HTTPStatus

BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
HOP_BY_HOP = ("content-length", "transfer-encoding", "connection")


@dataclass(frozen=True)
class Head:
    """The first line of a message, and its headers by their names in lower case."""

    first: str
    headers: dict[str, str]

    @property
    def chunked(self) -> bool:
        return self.headers.get("transfer-encoding") == "chunked"

    @property
    def status(self) -> int:
        """Of an answer."""
        return int(self.first.split(" ")[1])


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def encode(self) -> bytes:
        return encode_head(self.status, {**self.headers, "content-length": str(len(self.body))}) + self.body


def encode_head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def end_to_end(headers: dict[str, str]) -> dict[str, str]:
    """The headers that are not about this one connection."""
    return {name: value for name, value in headers.items() if name not in HOP_BY_HOP}


async def read_head(reader: asyncio.StreamReader) -> Head:
    """The head of the next message. Raises IncompleteReadError where there is none."""
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = text.rstrip("\r\n").split("\r\n")
    return Head(first, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)})


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """A whole body, whose end is said by its length or by chunks: without either there is none."""
    if head.chunked:
        return b"".join([chunk async for chunk in chunks(reader)])
    return await reader.readexactly(int(head.headers.get("content-length", "0")))


async def chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    """The chunks of a body as they come (RFC 9112, section 7.1; trailers are passed over)."""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        chunk = await reader.readexactly(size + 2)
        yield chunk[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        continue


async def lines(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    """The lines of a chunked body, each with its end; what is left at the end comes as it is."""
    rest = b""
    async for chunk in chunks(reader):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest


def as_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
