"""A file server on a real socket: ranges, a count of what is asked for, and faults that a test switches on and off."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Fault = Callable[["Handler", bytes], None]
"""Answers a request for these bytes (from the first one that was asked for) in its own way."""


class Asked:
    """One request: the path, the first byte that was asked for, and how many were sent."""

    def __init__(self, path: str, start: int) -> None:
        self.path, self.start, self.sent = path, start, 0


class FileHost:
    """Serves `files`; a path in `faults` is answered by that."""

    def __init__(self, port: int = 0) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, Fault] = {}
        self.asked: list[Asked] = []
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), Handler)
        self._server.host = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def add(self, path: str, content: bytes) -> tuple[str, str]:
        """Serve this; its URL and SHA-256."""
        self.files[path] = content
        return self.url(path), hashlib.sha256(content).hexdigest()

    @property
    def bytes_sent(self) -> int:
        return sum(asked.sent for asked in list(self.asked))

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.end_all()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    host: FileHost

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)
        self.connections.discard(request)
        super().shutdown_request(request)

    def end_all(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """The client went away, which is what many tests make it do."""


class Handler(BaseHTTPRequestHandler):
    """RFC 9110 ranges from one byte to the end."""

    server: _Server

    def do_GET(self) -> None:
        host = self.server.host
        content = host.files.get(self.path)
        self.start = int(self.headers.get("range", "bytes=0-")[6:-1])
        self.asked = Asked(self.path, self.start)
        host.asked.append(self.asked)
        if content is None:
            self.send_error(404)
            return
        host.faults.get(self.path, whole)(self, content)

    def head(self, content: bytes, length: int | None = None, start: int | None = None) -> None:
        """The head of an answer that sends the rest of `content`, or says that it is so long."""
        start = self.start if start is None else start
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()[:16]}"')
        self.send_header("Content-Length", str(len(content) - start if length is None else length))
        self.end_headers()

    def send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.asked.sent += len(data)

    def hold(self) -> None:
        """Send nothing more until the client goes away."""
        while self.connection.recv(1024):
            pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Quiet."""


def whole(handler: Handler, content: bytes) -> None:
    handler.head(content)
    handler.send(content[handler.start :])


def stalls_after(count: int) -> Fault:
    """So many bytes come, and then nothing."""

    def fault(handler: Handler, content: bytes) -> None:
        handler.head(content)
        handler.send(content[handler.start : handler.start + count])
        handler.hold()

    return fault


def lies_about_its_length(handler: Handler, content: bytes) -> None:
    """More is promised than comes."""
    handler.head(content, length=len(content) - handler.start + 1000)
    handler.send(content[handler.start :])


def cut_after(count: int) -> Fault:
    """The connection ends after so many bytes."""

    def fault(handler: Handler, content: bytes) -> None:
        handler.head(content)
        handler.send(content[handler.start : handler.start + count])

    return fault


def slow(chunk: int, pause: float) -> Fault:
    """A chunk at a time."""

    def fault(handler: Handler, content: bytes) -> None:
        handler.head(content)
        for place in range(handler.start, len(content), chunk):
            handler.send(content[place : place + chunk])
            if handler.server.host.closing.wait(pause):
                return

    return fault


def unavailable(handler: Handler, content: bytes) -> None:
    handler.send_error(503)


@contextmanager
def file_host(port: int = 0) -> Iterator[FileHost]:
    host = FileHost(port)
    try:
        yield host
    finally:
        host.close()
