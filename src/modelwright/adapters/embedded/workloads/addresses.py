"""Where the workers of a command find each other on one machine: ports that nobody has."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterable

from modelwright.ports.errors import Unavailable

HOST = "127.0.0.1"
_RANGE = range(20000, 32768)
"""Below what systems give to whoever asks for any port, so that nobody is given one before its worker binds it."""


class Ports:
    """Ports that are promised to workers; they are free for them to bind."""

    def __init__(self) -> None:
        self._promised: set[int] = set()

    def take(self, count: int) -> tuple[int, ...]:
        """So many different ports. Raises Unavailable (PortTaken) if there are none."""
        found: list[int] = []
        for port in random.sample(_RANGE, len(_RANGE)):
            if len(found) == count:
                break
            if port not in self._promised and is_free(port):
                found.append(port)
        if len(found) < count:
            raise Unavailable(f"{count} free ports are needed, and there are {len(found)}", reason="PortTaken")
        self.hold(found)
        return tuple(found)

    def hold(self, ports: Iterable[int]) -> None:
        """These are promised already, by a former program."""
        self._promised.update(ports)

    def give_back(self, ports: Iterable[int]) -> None:
        """Those who had them have ended."""
        self._promised.difference_update(ports)


def is_free(port: int) -> bool:
    """On every address: a worker may listen on all of them."""
    return _can_bind(socket.AF_INET, "", port) and (not socket.has_ipv6 or _can_bind(socket.AF_INET6, "", port))


def _can_bind(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.errno not in (errno.EADDRINUSE, errno.EACCES)  # else there is no such family here
    return True
