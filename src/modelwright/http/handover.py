"""Giving the listening socket back to a supervisor that was started anew.

A supervisor opens the socket and its servers inherit it. If the supervisor is killed, the servers go on; the next
one asks any of them for the socket over a Unix socket in a private folder (SCM_RIGHTS), so that it can start more
servers on the same port without a refused connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

_LONGEST = 100  # sun_path holds 108 bytes on Linux, 104 on macOS
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid
_RETRY_SECONDS = 0.1


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A spelling of `path` that fits into a socket address. Raises OSError where the system has none."""
    if len(os.fsencode(path)) <= _LONGEST or not sys.platform.startswith("linux"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


async def serve_handover(path: Path, listening: socket.socket) -> None:
    """Offer `listening` at `path` to processes of the same user, until cancelled.

    The folder of `path` must belong to the user alone (0700). Raises OSError if the socket cannot be made there.
    """
    with _offer(path) as offer:
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    peer, _ = await loop.sock_accept(offer)
                except OSError:  # out of file descriptors: the supervisor asks again
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                with peer, contextlib.suppress(OSError):
                    if _same_user(peer):
                        socket.send_fds(peer, [b"1"], [listening.fileno()])
        finally:
            path.unlink(missing_ok=True)  # noqa: ASYNC240


@contextlib.contextmanager
def _offer(path: Path) -> Iterator[socket.socket]:
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as offer:
        with short_path(path) as address:
            offer.bind(address)
        path.chmod(0o600)
        offer.listen(8)
        offer.settimeout(0.0)
        yield offer


def _same_user(peer: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder's mode alone decides
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[1]) == os.getuid()
