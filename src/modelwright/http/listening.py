"""The listening socket of a server process: inherited and shared, or its own."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

from modelwright.http.handover import serve_handover
from modelwright.ports.errors import Unavailable

log = logging.getLogger("modelwright.server")

HANDOVER = "MODELWRIGHT_HANDOVER"


async def offer_listener(listener: socket.socket) -> None:
    """Offers the shared socket to a supervisor that was started anew, where the supervisor says so."""
    path = os.environ.get(HANDOVER)
    if not path:
        return
    try:
        await serve_handover(Path(path), listener)
    except OSError as error:
        log.error("the listening socket cannot be offered at %s: %s", path, error)


def open_listener(fd: int | None, host: str, port: int) -> socket.socket:
    """The inherited socket, or a bound one that does not listen yet; raises Unavailable if the address is taken."""
    if fd is not None:
        return socket.socket(fileno=fd)
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port", reason="PortTaken"
        ) from error
    return listener
