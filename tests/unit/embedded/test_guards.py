"""Who may ask at all: loopback names, our own pages, the bearer of the token."""

from __future__ import annotations

import pytest
from tests.unit.embedded.api import MODELS, TOKEN, Client

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:6443", "localhost", "LocalHost:80", "[::1]", "[::1]:6443"])
async def test_loopback_names_may_ask(api: Client, host: str) -> None:
    assert (await api.ask("GET", MODELS, None, {"host": host})).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "", "evil.example", "evil.example:6443", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2",
        "0.0.0.0", "[::]", "::1", "localhost:", "localhost:123456", "localhost:1/", "127.0.0.1@evil.example",
        "evil.example\\@127.0.0.1", "127.1", "2130706433", "localhost\n", " localhost", "[::ffff:127.0.0.1]",
    ],
)  # fmt: skip
async def test_a_foreign_host_is_refused(api: Client, host: str) -> None:
    answer = await api.ask("GET", MODELS, None, {"host": host})
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert "loopback" in answer.json["message"]


async def test_a_request_needs_exactly_one_host(api: Client) -> None:
    answer = await api.ask("GET", MODELS, None, {"host": "localhost", "Host": "localhost"})
    assert answer.status == 403


@pytest.mark.parametrize("path", [MODELS, "/healthz", "/version"])
async def test_a_foreign_host_is_refused_before_anything_else(api: Client, path: str) -> None:
    assert (await api.ask("GET", path, None, {"host": "evil.example", "authorization": ""})).status == 403


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1:6443", "https://127.0.0.1:8080", "https://localhost:6443"],
)
async def test_pages_of_others_are_refused(api: Client, origin: str) -> None:
    assert (await api.ask("POST", MODELS, {}, {"origin": origin})).status == 403


async def test_our_own_pages_may_ask(api: Client) -> None:
    assert (await api.ask("GET", MODELS, None, {"origin": "https://127.0.0.1:6443"})).status == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
        "Bearer \xe9",
    ],
)  # fmt: skip
async def test_without_the_token_nothing_is_said(api: Client, authorization: str) -> None:
    for method, path in (("GET", MODELS), ("GET", "/"), ("GET", "/version"), ("POST", MODELS), ("GET", "/nowhere")):
        answer = await api.ask(method, path, None, {"authorization": authorization})
        assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.body.decode()


async def test_the_scheme_is_not_case_sensitive(api: Client) -> None:
    assert (await api.ask("GET", MODELS, None, {"authorization": f"bearer {TOKEN}"})).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_the_health_is_public(api: Client, path: str) -> None:
    answer = await api.ask("GET", path, None, {"authorization": ""})
    assert (answer.status, answer.body) == (200, b"ok")
