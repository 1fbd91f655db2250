"""HTTP servers inside a running event loop, on sockets that are already open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM."""

    certificate: Path
    key: Path


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process that we are part of has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """One server on one socket: serving once `start` returns, until `stop`."""

    def __init__(self, app: Any, listening: socket.socket, *, tls: Tls | None = None, grace: float = 5.0) -> None:
        """`grace` is how many seconds requests get to end once `stop` is called."""
        self._socket = listening
        self._server = _Server(_config(app, tls, grace))
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self) -> None:
        """Serve in the background. Raises what the server raises if it cannot."""
        self._task = asyncio.create_task(self._server.serve([self._socket]), name=f"listener-{self.port}")
        while not self._server.started:
            done, _ = await asyncio.wait((self._task,), timeout=0.005)
            if done:
                await self._task
                raise RuntimeError("the server ended before it served")

    async def stop(self) -> None:
        """Take no more connections, let requests end, close."""
        self._server.should_exit = True
        if self._task is not None:
            await self._task

    async def wait(self) -> None:
        """Until it has stopped."""
        if self._task is not None:
            await self._task


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)  # noqa: FBT003
    except BaseException:
        listening.close()
        raise
    return listening


def _config(app: Any, tls: Tls | None, grace: float) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace)),
        backlog=BACKLOG,
        interface="asgi3",
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    config.load()
    return config
