"""Registries to push to and pull from: the distribution project's own, and one that misbehaves on demand."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from modelwright.oci.client import RegistryRepository
from modelwright.oci.session import Options, Session

USER, PASSWORD = "builder", "canary-5ecret"
# The user and password above, as `htpasswd -B` writes them.
HTPASSWD = "builder:$2b$05$5yr434kOmOQvcaFgO6iGmeH19eGn7UL4Ejof/W9hxwd5znvE/Wktq\n"


class DockerRegistry:
    """A running docker-registry."""

    def __init__(self, host: str, data: Path, ca_file: Path | None = None) -> None:
        self.host = host
        self.data = data
        self.ca_file = ca_file


def _config(data: Path, extra: dict[str, object]) -> str:
    http = {"addr": "127.0.0.1:0", **extra.pop("http", {})}  # type: ignore[dict-item]
    storage = {"filesystem": {"rootdirectory": str(data)}, "delete": {"enabled": True}}
    return json.dumps({"version": "0.1", "log": {"level": "info"}, "storage": storage, "http": http, **extra})


def _run_registry(folder: Path, extra: dict[str, object], ca_file: Path | None = None) -> Iterator[DockerRegistry]:
    data, config = folder / "data", folder / "config.yml"
    config.write_text(_config(data, extra))
    process = subprocess.Popen(["docker-registry", "serve", config], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines: list[str] = []
    port = _listening_port(process.stderr, lines)
    drain = threading.Thread(target=lambda: [None for _ in process.stderr or ()])
    drain.start()
    try:
        yield DockerRegistry(f"127.0.0.1:{port}", data, ca_file)
    finally:
        process.terminate()
        process.wait()
        drain.join()
        process.stderr.close()


def _listening_port(lines: object, seen: list[str]) -> int:
    for line in lines:  # type: ignore[attr-defined]
        seen.append(line)
        found = re.search(r"listening on 127\.0\.0\.1:([0-9]+)", line)
        if found:
            return int(found[1])
    raise AssertionError("docker-registry did not start: " + "".join(seen))


@pytest.fixture(scope="session")
def docker_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    """One for all tests: each uses repositories of its own."""
    yield from _run_registry(tmp_path_factory.mktemp("registry"), {})


@pytest.fixture(scope="session")
def locked_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerRegistry]:
    """With TLS by a private CA, and a password."""
    folder = tmp_path_factory.mktemp("locked")
    ca_file = _make_certificates(folder)
    (folder / "htpasswd").write_text(HTPASSWD)
    extra: dict[str, object] = {
        "http": {"tls": {"certificate": str(folder / "server.crt"), "key": str(folder / "server.key")}},
        "auth": {"htpasswd": {"realm": "models", "path": str(folder / "htpasswd")}},
    }
    yield from _run_registry(folder, extra, ca_file)


def _make_certificates(folder: Path) -> Path:
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])

    def certificate(subject: x509.Name, public: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )

    root = certificate(ca_name, ca_key.public_key(), ca=True).sign(ca_key, hashes.SHA256())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    leaf = certificate(name, key.public_key(), ca=False).add_extension(address, critical=False)
    (folder / "ca.crt").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.crt").write_bytes(leaf.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "server.key").write_bytes(pem)
    return folder / "ca.crt"


class Seen:
    """A request as it came in."""

    def __init__(self, method: str, path: str, headers: dict[str, str]) -> None:
        self.method, self.path, self.headers = method, path, headers


class Handler(BaseHTTPRequestHandler):
    """Distribution-spec 1.1 in memory, unless a rule of the test says otherwise."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    server: ScriptedServer

    def setup(self) -> None:
        super().setup()
        self.instead: int | None = None

    def handle_any(self) -> None:
        """Every method ends here."""
        self.url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.registry.seen.append(Seen(self.command, self.path, headers))
        self.instead = None
        self.unread = int(headers.get("content-length", 0))
        action = self.server.registry.action_for(self.command, self.path)
        if action is None or not action(self):
            self.behave()
        if self.unread:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def body(self, count: int | None = None) -> bytes:
        """What is left of the body, or the next `count` bytes of it."""
        wanted = self.unread if count is None else min(count, self.unread)
        data = self.rfile.read(wanted)
        self.unread -= len(data)
        return data

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Headers are spelled with _ for -."""
        self.send_response(self.instead or status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reset(self) -> None:
        """Break the connection off, so that the other side sees a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.unread = 0
        self.close_connection = True

    def behave(self) -> None:
        """As a good registry does."""
        path = self.url.path
        for pattern, answer in (
            (r"/v2/\Z", self._version),
            (r"/v2/(.+)/blobs/uploads/(\w*)\Z", self._upload),
            (r"/v2/(.+)/blobs/(sha256:\w+)\Z", self._blob),
            (r"/v2/(.+)/manifests/([^/]+)\Z", self._manifest),
            (r"/v2/(.+)/tags/list\Z", self._tags),
            (r"/v2/(.+)/referrers/(sha256:\w+)\Z", self._referrers),
        ):
            found = re.match(pattern, path)
            if found:
                answer(*found.groups())
                return
        self.answer(404)

    def _version(self) -> None:
        self.answer(200, b"{}")

    def _blob(self, repository: str, digest: str) -> None:
        data = self.server.registry.blobs.get((repository, digest))
        if data is None:
            self.answer(404, b'{"errors":[{"code":"BLOB_UNKNOWN"}]}')
            return
        start = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if self.command == "HEAD" or not start:
            self.answer(200, data, Docker_Content_Digest=digest, Content_Length=str(len(data)))
            return
        first = int(start[1])
        self.answer(206, data[first:], Content_Range=f"bytes {first}-{len(data) - 1}/{len(data)}")

    def _upload(self, repository: str, name: str) -> None:
        registry, query = self.server.registry, parse_qs(self.url.query)
        where = f"/v2/{repository}/blobs/uploads/"
        if self.command == "POST":
            source = (query.get("from", [""])[0], query.get("mount", [""])[0])
            if source in registry.blobs:
                registry.blobs[repository, source[1]] = registry.blobs[source]
                self.answer(201, Docker_Content_Digest=source[1])
                return
            registry.uploads[str(len(registry.seen))] = bytearray()
            self.answer(202, Location=f"{where}{len(registry.seen)}")
        elif name not in registry.uploads:
            self.answer(404, b'{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}')
        elif self.command == "GET":
            self.answer(204, Range=f"0-{len(registry.uploads[name]) - 1}", Location=where + name)
        elif self.command == "DELETE":
            del registry.uploads[name]
            self.answer(204)
        elif self.command == "PATCH":
            self._append(registry.uploads[name], where + name)
        else:
            registry.uploads[name] += self.body()
            self._finish(repository, name, query["digest"][0])

    def _append(self, upload: bytearray, location: str) -> None:
        told = re.match(r"(\d+)-", self.headers.get("Content-Range", "0-"))
        if told is None or int(told[1]) != len(upload):
            self.answer(416)
            return
        upload += self.body()
        self.answer(202, Location=location, Range=f"0-{len(upload) - 1}")

    def _finish(self, repository: str, name: str, digest: str) -> None:
        data = bytes(self.server.registry.uploads.pop(name))
        if digest_of(data) != digest:
            self.answer(400, b'{"errors":[{"code":"DIGEST_INVALID","message":"provided digest did not match"}]}')
            return
        self.server.registry.blobs[repository, digest] = data
        self.answer(201, Docker_Content_Digest=digest)

    def _manifest(self, repository: str, reference: str) -> None:
        registry = self.server.registry
        if self.command == "PUT":
            data = self.body()
            digest = digest_of(data)
            if self.headers.get("If-None-Match") == "*" and (repository, reference) in registry.tags:
                self.answer(412)
                return
            registry.manifests[repository, digest] = (self.headers["Content-Type"], data)
            if not reference.startswith("sha256:"):
                registry.tags[repository, reference] = digest
            self.answer(201, Docker_Content_Digest=digest)
            return
        digest = registry.tags.get((repository, reference), reference)
        if (repository, digest) not in registry.manifests:
            self.answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
            return
        kind, data = registry.manifests[repository, digest]
        self.answer(200, data, Content_Type=kind, Docker_Content_Digest=digest, Content_Length=str(len(data)))

    def _tags(self, repository: str) -> None:
        names = sorted(tag for name, tag in self.server.registry.tags if name == repository)
        self.answer(200, json.dumps({"name": repository, "tags": names}).encode())

    def _referrers(self, repository: str, digest: str) -> None:
        if not self.server.registry.has_referrers:
            self.answer(404)
            return
        self.answer(200, b'{"schemaVersion":2,"manifests":[]}', Content_Type="application/vnd.oci.image.index.v1+json")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Say nothing."""


class ScriptedServer(ThreadingHTTPServer):
    """Threads are waited for, so that no socket outlives its test."""

    daemon_threads = False
    registry: ScriptedRegistry

    def handle_error(self, request: object, client_address: object) -> None:
        """Broken connections are what these tests are about."""


Action = Callable[[Handler], bool]


class ScriptedRegistry:
    """A registry in memory whose answers a test can replace, one by one."""

    def __init__(self) -> None:
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.tags: dict[tuple[str, str], str] = {}
        self.uploads: dict[str, bytearray] = {}
        self.seen: list[Seen] = []
        self.has_referrers = False
        self._rules: list[tuple[str, str, Action, list[int]]] = []
        self._server = ScriptedServer(("127.0.0.1", 0), Handler)
        self._server.registry = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.port: int = self._server.server_address[1]
        self.host = f"127.0.0.1:{self.port}"

    def on(self, method: str, pattern: str, action: Action, *, times: int = 1) -> None:
        """The next `times` requests of this method whose path contains the pattern get this answer."""
        self._rules.append((method, pattern, action, [times]))

    def mend(self) -> None:
        """Answer everything as it should from now on."""
        self._rules.clear()

    def action_for(self, method: str, path: str) -> Action | None:
        for wanted, pattern, action, left in self._rules:
            if wanted == method and re.search(pattern, path) and left[0] > 0:
                left[0] -= 1
                return action
        return None

    def count(self, method: str, pattern: str) -> int:
        """How many such requests came in."""
        return sum(1 for one in self.seen if one.method == method and re.search(pattern, one.path))

    def add(self, repository: str, data: bytes) -> str:
        """Put a blob there; its digest."""
        self.blobs[repository, digest_of(data)] = data
        return digest_of(data)

    def add_manifest(self, repository: str, data: bytes, kind: str, tag: str | None = None) -> str:
        """Put a manifest there; its digest."""
        self.manifests[repository, digest_of(data)] = (kind, data)
        if tag is not None:
            self.tags[repository, tag] = digest_of(data)
        return digest_of(data)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Faults:
    """Ready-made actions."""

    @staticmethod
    def status(status: int, body: bytes = b"", **headers: str) -> Action:
        """Answer this."""

        def act(handler: Handler) -> bool:
            handler.body()
            handler.answer(status, body, **headers)
            return True

        return act

    @staticmethod
    def reset_after(count: int) -> Action:
        """Take so many bytes of an upload, keep them, and break off."""

        def act(handler: Handler) -> bool:
            name = handler.url.path.rpartition("/")[2]
            handler.server.registry.uploads[name] += handler.body(count)
            handler.reset()
            return True

        return act

    @staticmethod
    def done_but(status: int) -> Action:
        """Do it, and then answer that it failed."""

        def act(handler: Handler) -> bool:
            handler.instead = status
            return False

        return act

    @staticmethod
    def cut_body(count: int) -> Action:
        """Answer a blob with its full length, but send only so many bytes of it from where it was asked for."""

        def act(handler: Handler) -> bool:
            repository, digest = handler.url.path.removeprefix("/v2/").split("/blobs/")
            data = handler.server.registry.blobs[repository, digest]
            asked = re.match(r"bytes=(\d+)-", handler.headers.get("Range", ""))
            start = int(asked[1]) if asked else 0
            ranged = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if asked else {}
            length = str(len(data) - start)
            handler.answer(206 if asked else 200, data[start : start + count], Content_Length=length, **ranged)
            handler.close_connection = True
            return True

        return act


@pytest.fixture
def faults() -> type[Faults]:
    return Faults


@pytest.fixture
def scripted() -> Iterator[ScriptedRegistry]:
    registry = ScriptedRegistry()
    yield registry
    registry.close()


@pytest.fixture
def foreign() -> Iterator[ScriptedRegistry]:
    """Another host, as far as a client can tell: it is reached as localhost."""
    registry = ScriptedRegistry()
    registry.host = f"localhost:{registry.port}"
    yield registry
    registry.close()


Connect = Callable[..., RegistryRepository]


@pytest.fixture
def pauses() -> list[float]:
    """How long the client of the test would have paused."""
    return []


@pytest.fixture
def connect(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connect]:
    """Makes repositories whose connections are closed at the end, and whose retries do not wait."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path_factory.mktemp("docker")))
    sessions: list[Session] = []

    def make(host: str, repository: str, options: Options | None = None) -> RegistryRepository:
        session = Session(host, options, pause=pauses.append)
        sessions.append(session)
        return RegistryRepository(session, repository)

    yield make
    for session in sessions:
        session.close()


@pytest.fixture
def log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Write the password for a host into docker's config.json, as `docker login` does."""

    def write(host: str) -> None:
        folder = tmp_path / "docker-config"
        folder.mkdir(exist_ok=True)
        auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
        monkeypatch.setenv("DOCKER_CONFIG", str(folder))

    return write


@pytest.fixture
def password() -> str:
    """The canary that must never be seen where it does not belong."""
    return PASSWORD


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with small files, a large one, and folders."""
    folder = tmp_path / "model"
    (folder / "assets" / "empty").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "assets" / "vocabulary ünïcode.txt").write_text("words")
    (folder / "weights.bin").write_bytes(os.urandom(9_000_000))
    return folder


@pytest.fixture
def same_files() -> Callable[[Path, Path], bool]:
    """Whether two folders hold the same files, folders and bytes."""

    def compare(one: Path, other: Path) -> bool:
        def listed(root: Path) -> dict[str, bytes | None]:
            found = {str(path.relative_to(root)): path for path in root.rglob("*")}
            return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}

        return listed(one) == listed(other)

    return compare


@pytest.fixture
def run_tool() -> Callable[..., str]:
    """Runs skopeo or umoci, which read our images independently of us."""

    def run(*command: str | Path) -> str:
        assert shutil.which(str(command[0])), f"{command[0]} is not installed"
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
