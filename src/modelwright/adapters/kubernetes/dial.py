"""Opens connections to an API server: TLS that is always verified, client certificates, an HTTP proxy."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.credentials import Credential
from modelwright.http.streams import Reader, detail, hang_up, keep_alive, open_stream
from modelwright.ports.errors import Forbidden, Invalid, Unavailable

HEAD_LIMIT = 1 << 16


class Address(NamedTuple):
    """What a server URL says; `prefix` is a path before every request's."""

    scheme: str
    host: str
    port: int
    authority: str
    prefix: str


def parse_server(access: Access) -> Address:
    """The address in an access. Raises Invalid for what is neither https nor http on loopback."""
    try:
        url = urlsplit(access.server)
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError as fault:
        raise Invalid(f"{access.source}: the server {access.server!r} is no URL: {fault}") from None
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.query:
        raise Invalid(f"{access.source}: the server {access.server!r} is not of the form https://HOST:PORT")
    if url.scheme == "http" and not is_loopback(url.hostname):
        raise Invalid(f"{access.source}: the server {access.server!r} must be https (plain http only on loopback)")
    return Address(url.scheme, url.hostname, port, url.netloc, url.path.rstrip("/"))


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Dialer:
    """Opens connections for one access; keeps the TLS context of the newest credential."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.address = parse_server(access)
        self._contexts: dict[tuple[bytes, bytes], ssl.SSLContext] = {}

    async def dial(self, credential: Credential) -> tuple[Reader, asyncio.StreamWriter]:
        """A new connection. Raises Unavailable, Forbidden (certificates), Invalid."""
        where = f"{self.address.scheme}://{self.address.authority}"
        try:
            reader, writer = await self._open(credential)
        except ssl.SSLCertVerificationError as fault:
            message = f"{where} ({self._access.source}) shows a certificate that is not trusted: {fault.verify_message}"
            raise Forbidden(message, reason="CertificateNotTrusted") from None
        except (OSError, asyncio.IncompleteReadError) as fault:
            message = f"{where} ({self._access.source}) cannot be reached: {detail(fault)}"
            raise Unavailable(message, reason="ConnectionFailed") from None
        keep_alive(writer)
        return reader, writer

    async def _open(self, credential: Credential) -> tuple[Reader, asyncio.StreamWriter]:
        host, port = self.address.host, self.address.port
        tls = self._context(credential) if self.address.scheme == "https" else None
        name = (self._access.tls_server_name or host) if tls is not None else None
        proxy = self._proxy()
        if proxy is None:
            return await open_stream(host, port, tls, name)
        reader, writer = await open_stream(proxy.hostname or "", proxy.port or 80)
        try:
            await _tunnel(reader, writer, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            if tls is not None:
                await writer.start_tls(tls, server_hostname=name)
        except BaseException:
            await hang_up(writer)
            raise
        return reader, writer

    def _context(self, credential: Credential) -> ssl.SSLContext:
        key = (credential.certificate, credential.key)
        if key not in self._contexts:
            self._contexts = {key: tls_context(self._access, credential)}
        return self._contexts[key]

    def _proxy(self) -> SplitResult | None:
        url = self._access.proxy_url or _proxy_from_environment(self.address)
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.username:
            raise Invalid("the proxy must be of the form http://HOST:PORT", reason="ProxyNotSupported")
        return parts


def tls_context(access: Access, credential: Credential) -> ssl.SSLContext:
    """A context that verifies the server's certificate and name, and shows the credential's certificate if any."""
    try:
        context = ssl.create_default_context(cadata=access.ca.decode("ascii") if access.ca else None)
        context.set_alpn_protocols(["http/1.1"])
        if credential.certificate:
            _load_pair(context, credential)
    except (ssl.SSLError, ValueError) as fault:
        message = f"{access.source} has a certificate or key that is not valid PEM: {fault}"
        raise Invalid(message, reason="InvalidKubeconfig") from None
    return context


def _load_pair(context: ssl.SSLContext, credential: Credential) -> None:
    # OpenSSL's binding reads files only: the pair is on disk, for this user alone, while it is read.
    with tempfile.NamedTemporaryFile(prefix="modelwright-") as pair:
        pair.write(credential.certificate.rstrip() + b"\n" + credential.key)
        pair.flush()
        context.load_cert_chain(Path(pair.name))


def _proxy_from_environment(address: Address) -> str:
    if is_loopback(address.host) or not any(name.lower().endswith("_proxy") for name in os.environ):
        return ""
    import urllib.request

    proxies = urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass_environment(f"{address.host}:{address.port}", proxies):  # type: ignore[attr-defined]
        return ""
    return proxies.get(address.scheme, "")


async def _tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str) -> None:
    writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        head = b""
    status = head.split(b" ", 2)[1:2]
    if len(head) > HEAD_LIMIT or status != [b"200"]:
        shown = status[0].decode("latin-1")[:3] if status else "nothing it should"
        raise OSError(f"the proxy answered {shown} to CONNECT")
