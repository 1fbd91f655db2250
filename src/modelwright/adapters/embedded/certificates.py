"""TLS for the API server, the token, and the kubeconfig that tells clients of both. All in the data directory.

The CA and the token outlive restarts. The server's certificate is renewed at a start when it is about to expire.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import ssl
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from modelwright.ports.errors import Rejected

NAMES = ("localhost", "127.0.0.1", "::1")
RENEW_BEFORE = timedelta(days=30)
_CA_DAYS, _SERVER_DAYS = 3650, 365
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,}")
_SERVER_LINE = re.compile(r"^\s+server: https://127\.0\.0\.1:([0-9]+)$", re.MULTILINE)


class Credentials(msgspec.Struct, frozen=True):
    """What the API server and its clients identify themselves with."""

    ca: Path
    certificate: Path
    key: Path
    token: str


def credentials(directory: Path) -> Credentials:
    """The credentials of a data directory, made or renewed where needed; every file is 0600.

    Raises Rejected (TokenDamaged) if the token file holds no token, OSError if files cannot be written.
    """
    folder = directory / "tls"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = Credentials(folder / "ca.crt", folder / "server.crt", folder / "server.key", _token(directory / "token"))
    if not _good(found):
        _issue(found, folder / "ca.key")
    return found


def remembered_port(kubeconfig: Path) -> int:
    """The port that a kubeconfig written here names, so that a restart can use it again; 0 if there is none."""
    try:
        match = _SERVER_LINE.search(kubeconfig.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return 0
    port = int(match[1]) if match else 0
    return port if port < 65536 else 0


def write_kubeconfig(path: Path, port: int, using: Credentials) -> None:
    """Write how to reach the API server: address, CA and token. It is replaced as a whole."""
    authority = base64.b64encode(using.ca.read_bytes()).decode()
    text = f"""apiVersion: v1
kind: Config
clusters:
- name: modelwright
  cluster:
    server: https://127.0.0.1:{port}
    certificate-authority-data: {authority}
users:
- name: modelwright
  user:
    token: {using.token}
contexts:
- name: modelwright
  context:
    cluster: modelwright
    user: modelwright
    namespace: default
current-context: modelwright
"""
    if not path.exists() or path.read_text("utf-8") != text:
        write_private(path, text.encode())


def write_private(path: Path, content: bytes) -> None:
    """Replace a file by one that only we may read; a reader sees the old content or the new, also after a crash."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _token(path: Path) -> str:
    if not path.exists():
        write_private(path, (secrets.token_urlsafe(32) + "\n").encode())
    token = path.read_text("utf-8", "replace").strip()
    if _TOKEN.fullmatch(token) is None:
        text = f"{path} holds no token. Delete it: the next start makes a new one, and a new kubeconfig with it"
        raise Rejected(text, reason="TokenDamaged")
    return token


def _good(found: Credentials) -> bool:
    """Whether a client that trusts the CA accepts the server's certificate, now and for a while: they shake hands."""
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(found.certificate, found.key)
        client = ssl.create_default_context(cafile=str(found.ca))
        certificate = _shake_hands(client, server)
    except (OSError, ssl.SSLError):
        return False
    expires = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return expires - time.time() > RENEW_BEFORE.total_seconds()


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return dict(asking.getpeercert() or {})


def _issue(wanted: Credentials, ca_key_path: Path) -> None:
    """Write a new server certificate, and a new CA if the old one is unusable or about to expire."""
    # Heavy, and only needed when something has to be signed.
    from modelwright.adapters.embedded import signing

    authority = signing.load_authority(wanted.ca, ca_key_path)
    now = datetime.now(UTC)
    if authority is None or authority.expires - now < RENEW_BEFORE + timedelta(days=_SERVER_DAYS):
        authority = signing.new_authority(now, now + timedelta(days=_CA_DAYS))
        write_private(ca_key_path, authority.key_pem())
        write_private(wanted.ca, authority.certificate_pem())
    key, certificate = authority.sign(NAMES, now, now + timedelta(days=_SERVER_DAYS))
    write_private(wanted.key, key)
    write_private(wanted.certificate, certificate)
