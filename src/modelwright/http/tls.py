"""TLS from files that are replaced while we run: a server's certificate, and whom a client trusts."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from modelwright.http.files import Watched
from modelwright.ports.errors import Unavailable

log = logging.getLogger("modelwright.server")

_PROTOCOLS = ["http/1.1"]
AUTHORITIES = ("ca.crt", "tls.crt")
"""What of a TLS Secret a client trusts: its authority, else the certificate itself."""


class Certificate:
    """What a server shows: a certificate with its chain, and the key to it (PEM), TLS 1.2 or newer.

    `context` is None until both could be read; when they change and cannot be used, the former go on being shown.
    `fault` says why.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self.context: ssl.SSLContext | None = None
        self.fault: Unavailable | None = None
        self._certificate, self._key = certificate, key
        self._watched = Watched(certificate, key)

    def refresh(self) -> None:
        """Reads the files again if they have changed, or could not be used. Connections that are open stay."""
        if not self._watched.changed() and self.fault is None:
            return
        before = self.fault
        try:
            self.context, self.fault = self._read(), None
        except (OSError, ValueError) as error:
            self.fault = _not_usable(f"{self._certificate} with the key {self._key}", error)
            if before is None or before.message != self.fault.message:
                log.error("%s", self.fault.message)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(_PROTOCOLS)
        context.load_cert_chain(self._certificate, self._key, password="")
        return context


class Trust:
    """Whom a client trusts: the authorities in a file, or those of the system. Names are always verified.

    The file may be a folder with the keys of a TLS Secret. What is in it is trusted as it stands: it may be the very
    certificate that the server shows. The names in that one are then those of the server.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        folder = [path / name for name in AUTHORITIES] if path is not None else []
        self._watched = Watched(*([path, *folder] if path is not None else []))
        self._context: ssl.SSLContext | None = None
        self._names: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        """For a new connection. Raises Unavailable (CertificateNotUsable)."""
        if self._watched.changed() or self._context is None:
            self._context = None
            self._context = self._read()
            self._names = _names_in(self._path / AUTHORITIES[1]) if self._path and self._path.is_dir() else ()
        return self._context

    def name(self, host: str) -> str:
        """The name to verify: `host`, unless the Secret has the server's certificate, and that is for others only."""
        return host if not self._names or host in self._names else self._names[0]

    def _read(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self._file())
        except (OSError, ValueError) as error:
            raise _not_usable(str(self._path), error) from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(_PROTOCOLS)
        if self._path is not None:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def _file(self) -> Path | None:
        if self._path is None or not self._path.is_dir():
            return self._path
        authority, certificate = (self._path / name for name in AUTHORITIES)
        return authority if authority.is_file() else certificate


def _names_in(certificate: Path) -> tuple[str, ...]:
    """The names and addresses that a certificate is for, without patterns; none if it cannot be read."""
    from cryptography import x509  # seldom needed

    try:
        shown = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return ()
    hosts = [name for name in names.get_values_for_type(x509.DNSName) if "*" not in name]
    return (*hosts, *map(str, names.get_values_for_type(x509.IPAddress)))


def _not_usable(what: str, error: OSError | ValueError) -> Unavailable:
    said = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", "")
    message = f"the certificate {what} cannot be used: {said or error}; give PEM files, a key without a passphrase"
    return Unavailable(message, reason="CertificateNotUsable")
