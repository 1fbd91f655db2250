"""The listening socket of a server process: inherited and shared, or its own."""

from __future__ import annotations

import errno
import logging
import os
import socket
from pathlib import Path

from modelwright.http.handover import serve_handover
from modelwright.ports.errors import Unavailable

log = logging.getLogger("modelwright.server")

HANDOVER = "MODELWRIGHT_HANDOVER"
BACKLOG = 2048


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
    """The inherited socket, or a listening one; raises Unavailable: PortInUse, PortForbidden or CannotListen."""
    if fd is not None:
        return socket.socket(fileno=fd)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refused(host, port, error) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _refused(host, port, error) from error
    return listener


def _refused(host: str, port: int, error: OSError) -> Unavailable:
    where = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        said = "another program on this machine listens there; choose another port (servingPort), or end that program"
        return Unavailable(f"{where}: {said}", reason="PortInUse")
    if error.errno == errno.EACCES:
        said = "this user may not use that port; choose another port (servingPort), from 1024 on"
        return Unavailable(f"{where}: {said}", reason="PortForbidden")
    return Unavailable(f"{where}: {error.strerror or error}; choose another address", reason="CannotListen")
