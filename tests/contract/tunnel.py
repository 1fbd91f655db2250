"""A way to an API server that can be taken away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.kubernetes.servers import listening


@asynccontextmanager
async def tunnel(address: str, sock: socket.socket | None = None) -> AsyncIterator[int]:
    """The port of it; its connections are cut at the end."""
    host, _, port = address.rpartition(":")

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer), return_exceptions=True)
        finally:
            far_writer.transport.abort()

    async with listening(forward, sock=sock) as port_here:
        yield port_here


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
    target.transport.abort()
