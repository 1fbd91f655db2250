"""Opening and ending connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl

READ_LIMIT = 1 << 20


class Reader(asyncio.StreamReader):
    """A stream that can tell whether bytes have come that nobody has asked for."""

    unread = False

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        self.unread = True
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        """As asyncio's; what may be left after `n` bytes counts as unread."""
        data = await super().read(n)
        self.unread = len(data) == n
        return data

    async def readuntil(self, separator: bytes = b"\n") -> bytes:  # type: ignore[override]
        """As asyncio's."""
        data = await super().readuntil(separator)
        self.unread = False
        return data


async def open_stream(
    host: str, port: int, tls: ssl.SSLContext | None = None, server_name: str | None = None
) -> tuple[Reader, asyncio.StreamWriter]:
    """A connection. Raises OSError (ssl.SSLError for TLS)."""
    loop = asyncio.get_running_loop()
    reader = Reader(limit=READ_LIMIT, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=tls, server_hostname=server_name)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close at once, and wait until the socket is."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the kernel find out about a peer that is gone without a word, where it can be told how soon."""
    sock = writer.get_extra_info("socket")
    options = {"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}
    for name, value in options.items():
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        if hasattr(socket, name):
            sock.setsockopt(level, getattr(socket, name), value)


def detail(fault: Exception) -> str:
    """What went wrong, without Python's `[Errno 111] Connect call failed (...)`."""
    plain = isinstance(fault, OSError) and not isinstance(fault, (ssl.SSLError, socket.gaierror))
    errno = fault.errno if plain and isinstance(fault, OSError) else None
    return os.strerror(errno) if errno else str(fault) or type(fault).__name__
