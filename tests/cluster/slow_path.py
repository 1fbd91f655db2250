"""A way to a registry on which, after so many bytes, little more passes until it is opened: a push that takes long."""

from __future__ import annotations

import contextlib
import socket
import threading

CHUNK = 1 << 16
TRICKLE_SECONDS = 0.2
"""How long each CHUNK takes once the limit is reached."""
NO_LIMIT = 1 << 62


class SlowPath:
    """Listens at an address of this machine and hands on what it reads to HOST:PORT; TLS goes through untouched."""

    def __init__(self, address: str, target: str, limit: int) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._left = limit
        self._room = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((address, 0))
        self.host = f"{address}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> SlowPath:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in [self._listener, *self._sockets]:
            each.close()

    def open(self) -> None:
        """Let everything pass from now on."""
        with self._room:
            self._left = NO_LIMIT
            self._room.notify_all()

    def _start(self, work: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                self._start(self._forward, client, server)
                self._start(self._back, server, client)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                with self._room:
                    # A trickle, never a standstill: who hears nothing gives up.
                    self._room.wait_for(lambda: self._left > 0, timeout=TRICKLE_SECONDS)
                    self._left -= len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _back(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
