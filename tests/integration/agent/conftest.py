"""A file server on a real socket whose every answer a test writes out, down to the byte at which it breaks."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Exchange:
    """One request, and the connection to answer it on."""

    def __init__(self, connection: socket.socket, target: str, headers: dict[str, str]) -> None:
        self.connection = connection
        self.target = target
        self.headers = headers

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """A whole answer, with its length unless `headers` say otherwise."""
        fields = {"Content-Length": str(len(body)), "Connection": "close"} | (headers or {})
        head = "".join(f"{key}: {value}\r\n" for key, value in fields.items() if value)
        self.connection.sendall(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)

    @property
    def start(self) -> int:
        """The first byte that is asked for."""
        return int(self.headers.get("range", "bytes=0-")[6:-1])

    def reset(self) -> None:
        """Close by RST instead of FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def hold(self) -> None:
        """Send nothing more until the client goes away."""
        while self.connection.recv(1024):
            pass


Answer = Callable[[Exchange], None]


class FaultServer:
    """Answers the first request by `answers[0]` and so on; the last one answers all that follow."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Exchange] = []
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    def url(self, path: str = "/model.onnx", host: str = "127.0.0.1") -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host}:{self.port}{path}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._acceptor, *self._threads):
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            exchange = self._read(connection)
            if exchange is not None:
                self.requests.append(exchange)
                self.answers[min(len(self.requests), len(self.answers)) - 1](exchange)
        except OSError:
            pass  # the client went away, which is what many tests make it do
        finally:
            connection.close()

    def _read(self, connection: socket.socket) -> Exchange | None:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return None
            data += chunk
        lines = data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines[1:])}
        return Exchange(connection, lines[0].split(" ")[1], headers)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    running = FaultServer()
    yield running
    running.close()


class Pki:
    """A private CA and certificates for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test CA")])
        now = datetime.datetime.now(datetime.UTC)
        self._from, self._until = now - datetime.timedelta(days=2), now + datetime.timedelta(days=2)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        self._ca = (
            self._builder(self._name, self._key, self._until)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.crt"
        self.ca_file.write_bytes(self._ca.public_bytes(serialization.Encoding.PEM))

    def context(self, *names: str, expired: bool = False) -> ssl.SSLContext:
        """A server's TLS with a certificate for these names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = self._from + datetime.timedelta(days=1) if expired else self._until
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
        certificate = (
            self._builder(subject, key, until)
            .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / "server.pem"
        pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime
    ) -> x509.CertificateBuilder:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._from)
            .not_valid_after(until)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority, critical=False)
        )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    folder = tmp_path / "pki"
    folder.mkdir()
    return Pki(folder)


StartServer = Callable[[ssl.SSLContext], FaultServer]


@pytest.fixture
def start_tls_server() -> Iterator[StartServer]:
    running: list[FaultServer] = []

    def start(tls: ssl.SSLContext) -> FaultServer:
        running.append(FaultServer(tls))
        return running[-1]

    yield start
    for server in running:
        server.close()
