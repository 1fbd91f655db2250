"""Digests: spelled, computed, verified."""

from __future__ import annotations

import hashlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.oci import digests
from modelwright.ports.errors import Invalid, Mismatch
from modelwright.ports.images import Descriptor


@given(st.binary())
def test_a_digest_is_sha256_in_lower_case(data: bytes) -> None:
    digest = digests.of(data)
    assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert digests.parse(digest) == digest
    assert digests.hexadecimal(digest) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha256:" + "A" * 64,
        "sha512:" + "0" * 64,
        "sha256:" + "0" * 63 + "\n",
        "sha256:" + "0" * 64 + "\n",
        "sha256:" + "0" * 63 + "٣",
        "../" + "0" * 64,
    ],
)
def test_what_is_no_digest_is_refused(text: str) -> None:
    assert not digests.is_digest(text)
    with pytest.raises(Invalid) as caught:
        digests.parse(text)
    assert caught.value.reason == "InvalidDigest"


def test_a_stream_is_hashed_in_pieces() -> None:
    data = bytes(range(256)) * 10_000
    seen: list[int] = []
    assert digests.of_stream(io.BytesIO(data), seen.append) == (digests.of(data), len(data))
    assert sum(seen) == len(data)
    assert max(seen) <= digests.CHUNK


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_verified_chunks_pass_unchanged(chunks: list[bytes]) -> None:
    data = b"".join(chunks)
    assert list(digests.verified(chunks, digests.of(data), len(data))) == chunks


@pytest.mark.parametrize(
    ("data", "reason"), [(b"12", "SizeMismatch"), (b"1234", "SizeMismatch"), (b"xyz", "DigestMismatch")]
)
def test_other_bytes_are_a_mismatch(data: bytes, reason: str) -> None:
    with pytest.raises(Mismatch) as caught:
        digests.verify(data, Descriptor("any", digests.of(b"123"), 3))
    assert caught.value.reason == reason


def test_too_many_bytes_are_noticed_before_the_end() -> None:
    chunks = digests.verified(iter(lambda: b"forever", b""), digests.of(b"123"), 3)
    with pytest.raises(Mismatch):
        next(chunks)
