"""A server of files as users have it: with ranges, logins and TLS; and one that is slow, stalls or lies on demand."""

from __future__ import annotations

import base64
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import msgspec
from tests.cluster.serving.models import File

CHUNK = 1 << 18


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is given out. `rate` is in bytes a second, 0 for no limit; after `stops_after` bytes of the file no
    more come, though the connection stays, until the test goes on; `claims` bytes more are announced than there are.
    """

    rate: int = 0
    stops_after: int = -1
    claims: int = 0
    token: str = ""
    login: str = ""
    status: int = 200


class Asked(msgspec.Struct, frozen=True):
    """A request that was answered: for which file, from which byte on, and how many bytes of it were sent."""

    name: str
    first: int
    sent: int
    status: int


class Downloads:
    """Files at an address of this machine, below http://HOST/ or, with a certificate, https://HOST/."""

    def __init__(self, address: str, certificate: tuple[Path, Path] | None = None) -> None:
        self.files: dict[str, File] = {}
        self.behaviours: dict[str, Behaviour] = {}
        self.asked: list[Asked] = []
        self.begun: set[str] = set()
        self.stalled: set[str] = set()
        self.ended = threading.Event()
        self._server = _Server((address, 0), _Handler)
        self._server.downloads = self
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.host = f"{address}:{self._server.server_address[1]}"
        self.scheme = "https" if certificate else "http"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Downloads:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def give(self, file: File, path: str = "", **behaviour: object) -> str:
        """Give a file out, at a path of one's own if another test gives one of this name; its URL.

        Given again, it has the new content and behaviour, also for downloads that have begun.
        """
        path = path or file.name
        self.files[path] = file
        self.behave(path, **behaviour)
        return f"{self.scheme}://{self.host}/{path}"

    def behave(self, path: str, **behaviour: object) -> None:
        """Change how a file is given out."""
        self.behaviours[path] = msgspec.convert(behaviour, Behaviour)

    def waiting(self, path: str) -> bool:
        """Whether somebody waits for more of this file than it is to be given by now."""
        return path in self.stalled

    def count(self, path: str) -> int:
        """How many requests for this file were answered."""
        return sum(asked.name == path for asked in self.asked)

    def sent(self, path: str) -> int:
        """How many bytes of this file were sent in all."""
        return sum(asked.sent for asked in self.asked if asked.name == path)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    downloads: Downloads

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no fault of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120
    server: _Server

    def do_GET(self) -> None:
        downloads, path = self.server.downloads, self.path.lstrip("/")
        file = downloads.files.get(path)
        if file is None:
            self._refuse(path, 404)
            return
        behaviour = downloads.behaviours[path]
        if not _may(self.headers.get("Authorization", ""), behaviour):
            self._refuse(path, 401)
        elif behaviour.status != 200:
            self._refuse(path, behaviour.status)
        else:
            self._give(path, file)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Nothing is printed."""

    def _refuse(self, path: str, status: int) -> None:
        self.server.downloads.asked.append(Asked(path, 0, 0, status))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _give(self, path: str, file: File) -> None:
        first = self._first(file)
        size = file.size + self.server.downloads.behaviours[path].claims
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(size - first))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{file.sha256[:16]}"')
        if first:
            self.send_header("Content-Range", f"bytes {first}-{size - 1}/{size}")
        self.end_headers()
        self.server.downloads.begun.add(path)
        with file.path.open("rb") as source:
            source.seek(first)
            sent = self._send(path, source, first)
        self.server.downloads.asked.append(Asked(path, first, sent, 206 if first else 200))
        self.close_connection = True

    def _first(self, file: File) -> int:
        """The first byte that is wanted: of an exchanged file, all."""
        wanted = self.headers.get("Range", "")
        same = self.headers.get("If-Range", f'"{file.sha256[:16]}"') == f'"{file.sha256[:16]}"'
        if not same or not wanted.startswith("bytes=") or not wanted.endswith("-"):
            return 0
        return min(int(wanted.removeprefix("bytes=").removesuffix("-")), file.size)

    def _send(self, path: str, source: BinaryIO, first: int) -> int:
        """Send what comes from here on, as the file's behaviour now is; how many bytes were sent."""
        downloads, sent = self.server.downloads, 0
        while not downloads.ended.is_set():
            behaviour = downloads.behaviours[path]
            left = CHUNK if behaviour.stops_after < 0 else behaviour.stops_after - first - sent
            if left <= 0:
                downloads.stalled.add(path)
                downloads.ended.wait(0.05)
                continue
            downloads.stalled.discard(path)
            size = min(CHUNK, left, max(1, behaviour.rate // 20) if behaviour.rate else CHUNK)
            chunk = source.read(size)
            if not chunk:
                break
            try:
                self.wfile.write(chunk)
            except OSError:  # the client has hung up
                break
            sent += len(chunk)
            if behaviour.rate:
                time.sleep(len(chunk) / behaviour.rate)
        return sent


def _may(authorization: str, behaviour: Behaviour) -> bool:
    if behaviour.token:
        return authorization == f"Bearer {behaviour.token}"
    if behaviour.login:
        return authorization == f"Basic {base64.b64encode(behaviour.login.encode()).decode()}"
    return True
