"""Several streams of text as one, in whole lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

_LONGEST = 64 * 1024


async def merged(streams: Sequence[AsyncIterator[bytes]]) -> AsyncIterator[bytes]:
    """What comes from any of them, as it comes. A line is not torn unless it is longer than 64 KiB."""
    if len(streams) == 1:
        async for chunk in streams[0]:
            yield chunk
        return
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=2 * len(streams))
    tasks = [asyncio.create_task(_copy(stream, queue)) for stream in streams]
    try:
        open_streams = len(streams)
        while open_streams:
            lines = await queue.get()
            if lines is None:
                open_streams -= 1
            elif lines:
                yield lines
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(stream: AsyncIterator[bytes], queue: asyncio.Queue[bytes | None]) -> None:
    """Whole lines, then None, even if the stream fails."""
    rest = b""
    try:
        async for chunk in stream:
            lines, newline, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > _LONGEST:
                lines, newline, rest = lines + newline + rest, b"", b""
            await queue.put(lines + newline)
        await queue.put(rest)
    except Exception:
        await queue.put(None)
        raise
    await queue.put(None)
