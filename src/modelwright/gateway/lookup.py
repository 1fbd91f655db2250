"""Where a host is: one question at a time, however many wait for the answer."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from typing import Any


class Lookup:
    """Finds the addresses of a host. A resolver that does not answer holds one thread, not one for each request."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._asking: asyncio.Task[Any] | None = None

    @property
    def pending(self) -> bool:
        """Whether the resolver is being asked, even if nobody waits for it any more: it cannot be interrupted."""
        return self._asking is not None and not self._asking.done()

    async def addresses(self) -> list[str]:
        """In the order in which they should be tried. Raises OSError."""
        if _is_address(self._host):
            return [self._host]
        if self._asking is None or self._asking.done():
            loop = asyncio.get_running_loop()
            asked = loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._asking = asyncio.ensure_future(asked)
            self._asking.add_done_callback(_retrieve)
        found = await asyncio.shield(self._asking)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(host.partition("%")[0]))
    return False


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Somebody has looked at how it ended, even if nobody waits any more."""
    if not task.cancelled():
        task.exception()
