"""The listening socket of a server process: inherited and shared, or its own."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modelwright.http.handover import serve_handover
from modelwright.ports.errors import Unavailable

log = logging.getLogger("modelwright.server")

HANDOVER = "MODELWRIGHT_HANDOVER"
BACKLOG = 2048
EVERYWHERE, EVERYWHERE_IPV4 = "::", "0.0.0.0"  # noqa: S104 - for whoever asks to listen there
_NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


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
    """The inherited socket, or a listening one; raises Unavailable: PortInUse, PortForbidden or CannotListen.

    The host `::` is every address of both families; of IPv4 alone where the kernel has no IPv6.
    """
    if fd is not None:
        return socket.socket(fileno=fd)
    if host == EVERYWHERE:
        return open_first(((socket.AF_INET6, EVERYWHERE), (socket.AF_INET, EVERYWHERE_IPV4)), port)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return _listen(family, address)
    except OSError as error:
        raise _refused(host, port, error) from error


def open_first(places: Sequence[tuple[int, str]], port: int) -> socket.socket:
    """Listens at the first of these families and addresses that the kernel has; raises as `open_listener`."""
    for family, host in places:
        try:
            return _listen(family, (host, port))
        except OSError as error:
            if error.errno not in _NOT_HERE or (family, host) == places[-1]:
                raise _refused(host, port, error) from error
    raise ValueError("nowhere to listen")


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address[0] == EVERYWHERE:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def authority(host: str, port: int) -> str:
    """HOST:PORT as URLs have it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refused(host: str, port: int, error: OSError) -> Unavailable:
    where = f"cannot listen on {authority(host, port)}"
    if error.errno == errno.EADDRINUSE:
        said = "another program on this machine listens there; choose another port (servingPort), or end that program"
        return Unavailable(f"{where}: {said}", reason="PortInUse")
    if error.errno == errno.EACCES:
        said = "this user may not use that port; choose another port (servingPort), from 1024 on"
        return Unavailable(f"{where}: {said}", reason="PortForbidden")
    return Unavailable(f"{where}: {error.strerror or error}; choose another address", reason="CannotListen")
