"""Requests to one model server: bounded in time, in size and in number."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable

from modelwright.gateway.address import Address
from modelwright.gateway.config import ModelConfig
from modelwright.gateway.credentials import Credentials
from modelwright.gateway.failed import Failed
from modelwright.gateway.lookup import Lookup
from modelwright.http.connection import Connection, Lost, Response, TooLong
from modelwright.http.pool import Pool
from modelwright.http.streams import Reader, detail, keep_alive, open_stream

MAX_CONNECTIONS = 64
MAX_ANSWER_BYTES = 64 * 1024 * 1024

Headers = Iterable[tuple[str, str]]


class Upstream:
    """One model server. Redirects are answers as any other; certificates are always verified."""

    def __init__(self, address: Address, config: ModelConfig) -> None:
        self.address = address
        self._credentials = Credentials(config)
        self._lookup = Lookup(address.host, address.port)
        self._pool = Pool(self._connect)
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        host = f"Host: {address.authority}\r\n"
        self._fixed = f"{host}User-Agent: modelwright-gateway\r\nAccept: */*\r\n"

    async def ask(
        self,
        method: str,
        path: str,
        seconds: float,
        headers: Headers = (),
        body: bytes = b"",
        limit: int = MAX_ANSWER_BYTES,
    ) -> Response:
        """The answer, whatever its status; `path` comes after the address's prefix, quoted. Raises Failed.

        `seconds` is for everything: the wait for a free connection, the connection, the answer.
        """
        head = self._head(method, path, headers, body)
        try:
            async with asyncio.timeout(seconds), self._slots:
                return await self._pool.exchange(head, body, again=True, limit=limit)
        except TimeoutError:
            raise Failed("TimedOut", f"{self.where} gave no whole answer in {seconds:.1f} s") from None
        except Lost:
            message = f"{self.where} closed the connection, or did not speak HTTP, before its answer was whole"
            raise Failed("ConnectionLost", message) from None
        except TooLong:
            raise Failed("AnswerTooLong", f"{self.where} gave more than {limit} bytes") from None

    async def aclose(self) -> None:
        """Close all idle connections."""
        await self._pool.aclose()

    @property
    def looking_up(self) -> bool:
        """Whether a thread waits for the resolver."""
        return self._lookup.pending

    @property
    def where(self) -> str:
        """Its scheme, host and port."""
        return f"{self.address.scheme}://{self.address.authority}"

    def _head(self, method: str, path: str, headers: Headers, body: bytes) -> bytes:
        lines = [f"{method} {self.address.prefix}{path} HTTP/1.1\r\n{self._fixed}"]
        lines += [f"{name}: {value}\r\n" for name, value in (*headers, *self._credentials.headers())]
        if method == "POST":
            lines.append(f"Content-Length: {len(body)}\r\n")
        return "".join((*lines, "\r\n")).encode("latin-1")

    async def _connect(self) -> Connection:
        secure = self.address.scheme == "https"
        context = self._credentials.context() if secure else None
        name = self._credentials.name(self.address.host) if secure else None
        try:
            reader, writer = await self._open(context, name)
        except ssl.SSLCertVerificationError as fault:
            message = f"{self.where} shows a certificate that is not trusted: {fault.verify_message}"
            raise Failed("CertificateNotTrusted", message) from None
        except OSError as fault:
            raise Failed("ConnectionFailed", f"{self.where} cannot be reached: {detail(fault)}") from None
        keep_alive(writer)
        return Connection(reader, writer)

    async def _open(self, context: ssl.SSLContext | None, name: str | None) -> tuple[Reader, asyncio.StreamWriter]:
        """A connection to the first of the host's addresses that takes one. Raises OSError."""
        *others, last = await self._lookup.addresses()
        for address in others:
            with contextlib.suppress(OSError):
                return await open_stream(address, self.address.port, context, name)
        return await open_stream(last, self.address.port, context, name)
