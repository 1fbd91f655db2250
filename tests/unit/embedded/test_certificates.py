from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from modelwright.adapters.embedded import signing
from modelwright.adapters.embedded.certificates import (
    Credentials,
    credentials,
    remembered_port,
    write_kubeconfig,
    write_private,
)
from modelwright.ports.errors import Rejected


def loaded(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def accepted(found: Credentials, name: str) -> bool:
    """Whether a client that trusts only the CA talks to a server of this name."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(found.certificate, found.key)
    client = ssl.create_default_context(cafile=str(found.ca))
    # What kubectl's successors and Python 3.13 check beyond this.
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    sides = asking, server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(3):
            for side in sides:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError:
        return False
    return asking.getpeercert() is not None


def test_a_client_that_trusts_the_ca_accepts_loopback_names_only(tmp_path: Path) -> None:
    found = credentials(tmp_path)
    assert [accepted(found, name) for name in ("localhost", "127.0.0.1", "::1")] == [True] * 3
    assert [accepted(found, name) for name in ("evil.example", "127.0.0.2", "LOCALHOST.evil")] == [False] * 3


def test_every_file_is_private(tmp_path: Path) -> None:
    credentials(tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700


def test_everything_outlives_a_restart(tmp_path: Path) -> None:
    first = credentials(tmp_path)
    before = contents(tmp_path)
    assert credentials(tmp_path) == first
    assert contents(tmp_path) == before


def test_two_directories_share_no_secret(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, other = credentials(tmp_path / "a"), credentials(tmp_path / "b")
    assert one.token != other.token
    assert one.key.read_bytes() != other.key.read_bytes()
    mixed = Credentials(other.ca, one.certificate, one.key, one.token)
    assert not accepted(mixed, "localhost")


def reissue(directory: Path, begins: timedelta, ends: timedelta) -> None:
    """A server certificate of the directory's own CA with these times, relative to now."""
    folder, now = directory / "tls", datetime.now(UTC)
    authority = signing.load_authority(folder / "ca.crt", folder / "ca.key")
    assert authority is not None
    key, certificate = authority.sign(["127.0.0.1"], now + begins, now + ends)
    write_private(folder / "server.key", key)
    write_private(folder / "server.crt", certificate)


@pytest.mark.parametrize("left", [timedelta(days=29), timedelta(days=-1)])
def test_a_certificate_that_is_about_to_expire_is_renewed_under_the_same_ca(tmp_path: Path, left: timedelta) -> None:
    found = credentials(tmp_path)
    ca = found.ca.read_bytes()
    reissue(tmp_path, timedelta(days=-300), left)
    credentials(tmp_path)
    assert found.ca.read_bytes() == ca
    assert loaded(found.certificate).not_valid_after_utc > datetime.now(UTC) + timedelta(days=300)
    assert accepted(found, "localhost")


def test_a_certificate_with_time_left_is_kept(tmp_path: Path) -> None:
    found = credentials(tmp_path)
    reissue(tmp_path, timedelta(days=-300), timedelta(days=31))
    before = found.certificate.read_bytes()
    credentials(tmp_path)
    assert found.certificate.read_bytes() == before


@pytest.mark.parametrize("name", ["server.key", "server.crt"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_damaged_server_certificate_is_made_anew(tmp_path: Path, name: str, content: bytes | None) -> None:
    found = credentials(tmp_path)
    ca = found.ca.read_bytes()
    damage(tmp_path / "tls" / name, content)
    assert accepted(credentials(tmp_path), "localhost")
    assert found.ca.read_bytes() == ca


@pytest.mark.parametrize("name", ["ca.crt"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_damaged_ca_is_made_anew(tmp_path: Path, name: str, content: bytes | None) -> None:
    credentials(tmp_path)
    damage(tmp_path / "tls" / name, content)
    assert accepted(credentials(tmp_path), "localhost")


def damage(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def test_a_ca_without_its_key_serves_on_until_a_renewal_needs_it(tmp_path: Path) -> None:
    found = credentials(tmp_path)
    ca = found.ca.read_bytes()
    (tmp_path / "tls" / "ca.key").unlink()
    credentials(tmp_path)
    assert found.ca.read_bytes() == ca
    found.certificate.unlink()
    assert accepted(credentials(tmp_path), "localhost")
    assert found.ca.read_bytes() != ca


@pytest.mark.parametrize("content", ["", "short\n", "with a space in it 0123456789 0123456789\n", "x" * 40 + "\ny\n"])
def test_a_token_file_without_a_token_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(Rejected, match="Delete it") as caught:
        credentials(tmp_path)
    assert caught.value.reason == "TokenDamaged"


def test_a_token_that_the_user_wrote_is_taken(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 40 + "\n")
    assert credentials(tmp_path).token == "t" * 40


def test_the_kubeconfig_names_address_ca_and_token(tmp_path: Path) -> None:
    found, path = credentials(tmp_path), tmp_path / "kubeconfig"
    write_kubeconfig(path, 6443, found)
    value = yaml.safe_load(path.read_text())
    (cluster,), (user,) = value["clusters"], value["users"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert user["user"] == {"token": found.token}
    assert path.stat().st_mode & 0o777 == 0o600
    assert remembered_port(path) == 6443


def test_a_kubeconfig_that_says_the_same_is_not_written_again(tmp_path: Path) -> None:
    found, path = credentials(tmp_path), tmp_path / "kubeconfig"
    write_kubeconfig(path, 6443, found)
    before = path.stat()
    write_kubeconfig(path, 6443, found)
    assert path.stat().st_ino == before.st_ino
    write_kubeconfig(path, 6444, found)
    assert remembered_port(path) == 6444


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"    server: https://127.0.0.1:99999\n", b"server: x"])
def test_without_a_usable_kubeconfig_no_port_is_remembered(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    assert remembered_port(path) == 0


def test_a_link_in_place_of_a_private_file_is_replaced_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("theirs")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_private(link, b"ours")
    assert target.read_text() == "theirs"
    assert link.read_bytes() == b"ours"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]
