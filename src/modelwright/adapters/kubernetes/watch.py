"""Watches: one stream of changes, with every way in which it can end told apart.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from modelwright.adapters.kubernetes.client import FIRST_FAULT, KubernetesClient, Selection
from modelwright.adapters.kubernetes.faults import Status, from_status, refusal
from modelwright.adapters.kubernetes.resource import Resource
from modelwright.adapters.kubernetes.transport import Stream
from modelwright.ports.errors import Unavailable

GRACE_SECONDS = 15.0
MAX_LINE = 64 << 20


class Line(NamedTuple):
    """One change: ADDED, MODIFIED, DELETED or BOOKMARK, and the object as bytes."""

    type: str
    object: msgspec.Raw


class _Line(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_DECODER = msgspec.json.Decoder(_Line)


async def watch_once(
    client: KubernetesClient,
    resource: Resource,
    version: str,
    where: Selection,
    *,
    seconds: int,
    grace: float = GRACE_SECONDS,
    headers: dict[str, str] | None = None,
) -> AsyncGenerator[Line, None]:
    """Changes after `version`, until the server ends the watch after `seconds`; then resume from the last one seen.

    A server that says nothing for `seconds` and `grace` is taken for gone.
    Raises Expired (list again), Unavailable (connection lost, or the peer silent past the end), Forbidden, NotFound.
    """
    params = {
        **where.params(),
        "watch": True,
        "allowWatchBookmarks": True,
        "resourceVersion": version,
        "timeoutSeconds": seconds,
    }
    path = resource.path(where.namespace)
    what = f"watch {resource.qualified}"
    deadline = asyncio.get_running_loop().time() + seconds + grace
    async with client.stream(path, params, headers=headers) as stream:
        if stream.status >= FIRST_FAULT:
            raise refusal(stream.status, stream.headers, await _rest(stream, deadline), what)
        async with aclosing(_lines(stream, deadline, what)) as lines:
            async for line in lines:
                yield _read(line, what)


def _read(line: bytes, what: str) -> Line:
    try:
        change = _DECODER.decode(line)
        if change.type != "ERROR":
            return Line(change.type, change.object)
        status = msgspec.json.decode(change.object, type=Status)
    except msgspec.DecodeError as fault:
        raise Unavailable(f"{what}: a line that cannot be read: {fault}", reason="BadAnswer") from None
    raise from_status(status, what)


async def _lines(stream: Stream, deadline: float, what: str) -> AsyncGenerator[bytes, None]:
    buffer = bytearray()
    while True:
        chunk = await _next(stream, deadline, what)
        if chunk is None:
            return  # what is left in the buffer is a change cut short: it comes again
        searched = len(buffer)
        buffer += chunk
        begin = 0
        while (end := buffer.find(b"\n", max(begin, searched))) >= 0:
            if end > begin:
                yield bytes(buffer[begin:end])
            begin = end + 1
        del buffer[:begin]
        if len(buffer) > MAX_LINE:
            raise Unavailable(f"{what}: a change of more than {MAX_LINE} bytes", reason="BadAnswer")


async def _next(stream: Stream, deadline: float, what: str) -> bytes | None:
    """The next chunk, None at the end. A server that is gone says nothing: that is found out by the clock."""
    try:
        async with asyncio.timeout_at(deadline):
            return await anext(stream.chunks, None)
    except TimeoutError:
        raise Unavailable(f"{what}: the server is silent past the watch's end", reason="TimedOut") from None


async def _rest(stream: Stream, deadline: float) -> bytes:
    body = bytearray()
    while (chunk := await _next(stream, deadline, "watch")) is not None:
        body += chunk
    return bytes(body)
