"""Plain http on this machine, where the registry competes with us for the same processors.

Uploads use one buffer, and a socket that blocks in the kernel. HTTP libraries put sockets with timeouts into
non-blocking mode, send a little, poll, and copy what is left over: with 1.5 GB, the registry and we together take
6 % more processor time that way. To load such a library and the system's certificates takes 0.1 s more.
"""

from __future__ import annotations

import http.client
import select
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO
from urllib.parse import quote, urlsplit

from modelwright.oci import media
from modelwright.oci.answers import Answer
from modelwright.oci.digests import CHUNK
from modelwright.ports.errors import Mismatch, Unavailable
from modelwright.ports.images import Progress


class Connections:
    """Connections to one `host[:port]`, kept open between requests; safe to use from several threads."""

    def __init__(self, host: str, connect: float) -> None:
        self._host, self._connect = host, connect
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def ask(
        self, method: str, url: str, headers: dict[str, str], body: Iterable[bytes] | None, *, patience: float
    ) -> Answer:
        """Send a request and read the answer; each read and write may take `patience` seconds.

        Raises Unavailable if nothing connects or the connection breaks or stalls, Mismatch for a huge answer,
        and what the body raises.
        """
        with _explained(self._host), self._taken() as connection:
            connection.sock.settimeout(patience)
            with suppress(BrokenPipeError, ConnectionResetError):  # the answer may say why
                connection.request(method, _target(url), body, headers)
            return _answer(connection.getresponse())

    def send(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        stream: BinaryIO,
        progress: Progress,
        *,
        idle: float,
        patience: float,
    ) -> Answer:
        """Send a request whose body is the rest of a stream, of the length that `headers` say, and read the answer.

        Seconds: `idle` in which the other side may take nothing, `patience` for its answer.
        Raises as `ask`, and Mismatch if the stream is short.
        """
        with _explained(self._host), self._taken() as connection:
            _block_in_kernel(connection.sock, idle)
            connection.putrequest(method, _target(url))
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            _send_body(connection.sock, stream, int(headers["Content-Length"]), progress)
            connection.sock.settimeout(patience)
            return _answer(connection.getresponse())

    def close(self) -> None:
        """Close all that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _taken(self) -> Iterator[http.client.HTTPConnection]:
        """A connection, put back afterwards if it can serve once more."""
        connection = self._kept() or self._connected()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:
            with self._lock:
                self._idle.append(connection)

    def _kept(self) -> http.client.HTTPConnection | None:
        """One that the other side has not closed meanwhile."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not _readable(connection.sock):
                return connection
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        parts = urlsplit(f"//{self._host}")
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self._connect)
        try:
            connection.connect()
        except TimeoutError:
            raise
        except OSError as error:
            raise Unavailable(
                f"{self._host} cannot be reached ({error}): check the name and that it is up",
                reason="RegistryUnreachable",
            ) from error
        return connection


@contextmanager
def _explained(host: str) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, BlockingIOError) as error:
        raise Unavailable(f"{host} does not answer in time: is it overloaded?", reason="RegistrySlow") from error
    except (http.client.HTTPException, ConnectionError) as error:
        said = str(error) or type(error).__name__
        raise Unavailable(f"the connection to {host} broke ({said}): try again", reason="RegistryBroke") from error


def _target(url: str) -> str:
    parts = urlsplit(url)
    return quote(f"{parts.path}?{parts.query}" if parts.query else parts.path, safe="/?%:@!$&'()*+,;=~")


def _readable(connection: socket.socket) -> bool:
    """Between requests, a connection has something to read only if it has been closed."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _block_in_kernel(connection: socket.socket, seconds: float) -> None:
    connection.settimeout(None)
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _send_body(connection: socket.socket, stream: BinaryIO, length: int, progress: Progress) -> None:
    """A server that has seen enough may answer and close: the answer is worth reading."""
    view = memoryview(bytearray(CHUNK))
    while count := stream.readinto(view):  # type: ignore[attr-defined]
        try:
            connection.sendall(view[:count])
        except (BrokenPipeError, ConnectionResetError):
            return
        length -= count
        progress(count)
    if length:
        raise Mismatch(f"the content to be sent ends {length} bytes too early", reason="SizeMismatch")


def _answer(response: http.client.HTTPResponse) -> Answer:
    body = response.read(media.MAX_MANIFEST_BYTES + 1)
    if len(body) > media.MAX_MANIFEST_BYTES:
        raise Mismatch(f"an answer is over {media.MAX_MANIFEST_BYTES} bytes", reason="ManifestTooLarge")
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return Answer(response.status, headers, body)
