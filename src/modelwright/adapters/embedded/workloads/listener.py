"""The socket on which a server's replicas listen: opened once, inherited by each, got back from them after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from modelwright.http.handover import short_path
from modelwright.ports.errors import Unavailable

_BACKLOG = 1024
_ASK_SECONDS = 2.0


class Listener:
    """A bound socket. While it does not listen, its port is kept and connections are refused at once."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        address = sock.getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    def listen(self) -> None:
        """Raises Unavailable with reason PortTaken if somebody else listens here by now."""
        try:
            self.sock.listen(_BACKLOG)
        except OSError as error:
            raise taken(self.host, self.port, error) from error

    def close(self) -> None:
        self.sock.close()


def taken(host: str, port: int, error: OSError) -> Unavailable:
    """Why a port cannot be had, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return Unavailable(
            f"port {port} on {host} is used by another program: end that program, "
            "or set another servingPort (0 takes any free one)",
            reason="PortTaken",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unavailable(
            f"port {port} on {host} needs more rights than this user has: use a servingPort of 1024 or more",
            reason="PortForbidden",
        )
    return Unavailable(f"cannot listen on {host} port {port}: {error.strerror or error}", reason="CannotListen")


def reserve(host: str, port: int, remembered: int = 0) -> Listener:
    """A socket bound to `port`; for port 0 to the remembered port if that is free, else to any.

    Raises Unavailable with reason PortTaken, PortForbidden or CannotListen.
    """
    if port == 0 and remembered:
        with contextlib.suppress(OSError):
            return _bind(host, remembered)
    try:
        return _bind(host, port)
    except OSError as error:
        raise taken(host, port, error) from error


def _bind(host: str, port: int) -> Listener:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.settimeout(0.0)
    except BaseException:
        sock.close()
        raise
    return Listener(sock)


async def ask(path: Path) -> Listener | None:
    """The socket that a running replica offers at `path`; None if it does not answer.

    One that comes when nobody waits for it any more is closed: a port must not stay open for nobody.
    """
    executor = ThreadPoolExecutor(1)
    asked = executor.submit(_ask, path)
    executor.shutdown(wait=False)
    try:
        return await asyncio.wrap_future(asked)
    except OSError:
        return None
    except asyncio.CancelledError:
        asked.add_done_callback(_close_unclaimed)
        raise


def _close_unclaimed(asked: Future[Listener | None]) -> None:
    found = None if asked.cancelled() or asked.exception() is not None else asked.result()
    if found is not None:
        found.close()


def _ask(path: Path) -> Listener | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(_ASK_SECONDS)
        with short_path(path) as address:
            peer.connect(address)
        _, descriptors, _, _ = socket.recv_fds(peer, 1, 1)
    if not descriptors:
        return None
    os.set_inheritable(descriptors[0], False)  # noqa: FBT003
    sock = socket.socket(fileno=descriptors[0])
    sock.settimeout(0.0)
    return Listener(sock)
