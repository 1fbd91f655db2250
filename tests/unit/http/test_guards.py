"""Tokens and certificates as files have them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.pki import Authority

from modelwright.http.bearer import Tokens, read_tokens
from modelwright.http.files import LONGEST
from modelwright.http.tls import Certificate, Trust
from modelwright.ports.errors import Unavailable


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@given(st.binary(max_size=60), st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_only_what_stands_in_the_file_is_taken(
    tmp_path_factory: pytest.TempPathFactory, held: bytes, given: bytes
) -> None:
    file = tmp_path_factory.mktemp("t") / "token"
    file.write_bytes(held)
    tokens = Tokens(file)
    tokens.refresh()
    assert tokens.takes(given) == (tokens.fault is None and given in read_tokens(file))
    assert tokens.fault is None or not tokens.takes(held)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "holds no token"), (b"a b", "no token"), (b"x" * (LONGEST + 1), "longer than"), (None, "No such file")],
)
def test_a_file_that_holds_no_token_says_why_and_tells_none(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Unavailable, match=told) as caught:
        read_tokens(file)
    assert caught.value.reason == "TokenNotUsable"
    assert "a b" not in caught.value.message


def test_a_token_that_goes_away_is_taken_no_more(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"one\r\ntwo\n")
    tokens = Tokens(file)
    tokens.refresh()
    assert [tokens.takes(each) for each in (b"one", b"two", b"", b"one\r", b"three")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    file.unlink()
    tokens.refresh()
    assert tokens.fault is not None
    assert not tokens.takes(b"one")
    assert not tokens.takes(b"")


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(loaded.private_bytes(encoding, form, serialization.BestAvailableEncryption(b"secret")))
    shown = Certificate(certificate, key)
    shown.refresh()
    assert shown.context is None
    assert shown.fault is not None
    assert "passphrase" in shown.fault.message


def test_a_certificate_that_cannot_be_used_any_more_leaves_the_former(authority: Authority) -> None:
    certificate, key = authority.issue("server")
    shown = Certificate(certificate, key)
    shown.refresh()
    first = shown.context
    assert first is not None
    assert first.minimum_version == ssl.TLSVersion.TLSv1_2
    certificate.write_bytes(b"half")
    shown.refresh()
    assert (shown.context, shown.fault is None) == (first, False)
    authority.issue("server")
    shown.refresh()
    assert shown.fault is None
    assert shown.context is not first


def test_whom_to_trust_is_read_again_when_it_changes(authority: Authority, tmp_path: Path) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    trust = Trust(folder)
    with pytest.raises(Unavailable, match="cannot be used") as caught:
        trust.context()
    assert caught.value.reason == "CertificateNotUsable"
    (folder / "tls.crt").write_bytes(authority.issue("server")[0].read_bytes())
    own = trust.context()
    assert (own.verify_mode, own.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert trust.context() is own
    (folder / "ca.crt").write_bytes(authority.ca_file.read_bytes())
    assert [each["subject"] for each in trust.context().get_ca_certs()] != []
    (folder / "ca.crt").write_bytes(b"half")
    with pytest.raises(Unavailable):
        trust.context()


def test_without_a_file_the_system_is_trusted() -> None:
    context = Trust().context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
