"""Challenges, and which hosts belong together."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.oci.auth import Challenge, parse_challenge, related


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Basic realm="x"', Challenge("basic", {"realm": "x"})),
        ("Basic", Challenge("basic", {})),
        (
            'Bearer realm="https://a.io/token",service="s",scope="repository:a/b:pull,push"',
            Challenge("bearer", {"realm": "https://a.io/token", "service": "s", "scope": "repository:a/b:pull,push"}),
        ),
        ("bearer realm=https://a.io/t, service=s", Challenge("bearer", {"realm": "https://a.io/t", "service": "s"})),
        ('Negotiate, Bearer realm="https://a.io/t"', Challenge("bearer", {"realm": "https://a.io/t"})),
        ("Negotiate", None),
        ("", None),
        ("realm=x", None),
    ],
)
def test_challenges_are_understood(header: str, expected: Challenge | None) -> None:
    assert parse_challenge(header) == expected


@given(st.text(max_size=200))
def test_any_header_is_a_challenge_or_none(header: str) -> None:
    found = parse_challenge(header)
    assert found is None or found.scheme in {"basic", "bearer"}


@pytest.mark.parametrize("header", ["Bearer " + "a=b " * 50_000 + "!", "Bearer a=" + " " * 90_000, "B " * 90_000])
def test_hostile_headers_take_no_time(header: str) -> None:
    before = time.process_time()
    parse_challenge(header)
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("realm", "registry"),
    [
        ("a.example.com", "a.example.com"),
        ("auth.docker.io", "registry-1.docker.io"),
        ("gitlab.com", "registry.gitlab.com"),
        ("token.r.example.com", "r.example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("auth.example.co.uk", "registry.example.co.uk"),
    ],
)
def test_token_services_of_the_same_owner(realm: str, registry: str) -> None:
    assert related(realm, registry)


@pytest.mark.parametrize(
    ("realm", "registry"),
    [
        ("evil.com", "example.com"),
        ("evil.io", "ghcr.io"),
        ("evil.co.uk", "example.co.uk"),
        ("127.0.0.2", "127.0.0.1"),
        ("10.0.0.1", "9.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("notexample.com", "registry.example.com"),
        ("example.com.evil.net", "registry.example.com"),
        ("com", "example.com"),
    ],
)
def test_token_services_of_other_owners(realm: str, registry: str) -> None:
    assert not related(realm, registry)
