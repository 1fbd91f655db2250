"""Tokens and credentials: who gets them, and who does not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from modelwright.oci import digests
from modelwright.oci.credentials import Credentials
from modelwright.oci.image import Blob
from modelwright.oci.push import push_folder
from modelwright.oci.session import Options
from modelwright.ports.errors import Forbidden, Unavailable

BLOB = Blob(b"some bytes", digests.of(b"some bytes"))


class TokenService:
    """Makes a scripted registry ask for tokens and give them, as distribution's token spec says."""

    def __init__(self, registry: Any, *, realm: str = "", lifetime: int = 300) -> None:
        self.registry = registry
        self.realm = realm or f"http://{registry.host}/token"
        self.lifetime = lifetime
        self.given: dict[str, list[str]] = {}
        self.revoked: set[str] = set()
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            registry.on(method, "^/v2/.", self.guard, times=1000)
        registry.on("GET", "^/token", self.give, times=1000)
        registry.on("POST", "^/token", self.give_for_refresh, times=1000)
        self.forms: list[dict[str, list[str]]] = []

    def guard(self, handler: Any) -> bool:
        token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        repository = handler.url.path.removeprefix("/v2/").partition("/blobs")[0].partition("/manifests")[0]
        action = "pull" if handler.command in {"GET", "HEAD"} else "push"
        wanted = f"repository:{repository.removesuffix('/tags/list')}:"
        scopes = self.given.get(token, []) if token not in self.revoked else []
        if any(scope.startswith(wanted) and action in scope for scope in scopes):
            return False
        handler.body()
        challenge = f'Bearer realm="{self.realm}",service="models",scope="{wanted}{action}"'
        handler.answer(401, WWW_Authenticate=challenge)
        return True

    def give(self, handler: Any) -> bool:
        query = parse_qs(handler.url.query)
        token = f"token-{len(self.given)}"
        self.given[token] = query["scope"]
        handler.answer(200, json.dumps({"token": token, "expires_in": self.lifetime}).encode())
        return True

    def give_for_refresh(self, handler: Any) -> bool:
        self.forms.append(parse_qs(handler.body().decode()))
        token = f"token-{len(self.given)}"
        self.given[token] = self.forms[-1]["scope"][0].split()
        handler.answer(200, json.dumps({"access_token": token}).encode())
        return True


def test_a_token_is_fetched_once_for_each_scope(scripted: Any, connect: Any, model: Path, log_in: Any) -> None:
    log_in(scripted.host)
    service = TokenService(scripted)
    push_folder(model, connect(scripted.host, "team/model"), ("v1",))
    asked = {tuple(sorted(scopes)) for scopes in service.given.values()}
    assert len(service.given) == len(asked) <= 4
    basic = [one.headers.get("authorization", "") for one in scripted.seen if one.path.startswith("/token")]
    assert all(value.startswith("Basic ") for value in basic)


def test_the_password_goes_to_the_token_service_only(scripted: Any, connect: Any, log_in: Any, password: str) -> None:
    log_in(scripted.host)
    TokenService(scripted)
    connect(scripted.host, "team/model").write_blob(BLOB)
    secret = base64.b64encode(f"builder:{password}".encode()).decode()
    for one in scripted.seen:
        assert (secret in str(one.headers)) == one.path.startswith("/token")


def test_a_mount_asks_for_access_to_its_source_too(scripted: Any, connect: Any) -> None:
    service = TokenService(scripted)
    scripted.add("team/source", b"some bytes")
    connect(scripted.host, "team/model").write_blob(BLOB, sources=("team/source",))
    assert ["repository:team/model:pull,push", "repository:team/source:pull"] in [
        [scope for scope in scopes if "," in scope or "source" in scope] for scopes in service.given.values()
    ]


def test_an_expired_token_is_renewed_in_the_middle(scripted: Any, connect: Any, model: Path) -> None:
    service = TokenService(scripted)
    images = connect(scripted.host, "team/model")
    images.write_blob(BLOB)
    service.revoked |= set(service.given)
    push_folder(model, images, ("v1",))
    assert scripted.tags


def test_a_token_that_is_about_to_expire_is_not_used(scripted: Any, connect: Any) -> None:
    service = TokenService(scripted, lifetime=5)
    images = connect(scripted.host, "team/model")
    assert not images.has_blob(BLOB.digest)
    assert not images.has_blob(BLOB.digest)
    assert len(service.given) >= 2


def test_an_identity_token_is_exchanged(scripted: Any, connect: Any) -> None:
    service = TokenService(scripted)
    options = Options(credentials=Credentials(identity_token="refresh-me"))
    connect(scripted.host, "team/model", options).write_blob(BLOB)
    assert service.forms[0]["grant_type"] == ["refresh_token"]
    assert service.forms[0]["refresh_token"] == ["refresh-me"]
    assert "authorization" not in next(one for one in scripted.seen if one.path == "/token").headers


@pytest.mark.parametrize("realm", ["http://{foreign}/token", "https://{foreign}/token", "https://tokens.example.com/t"])
def test_a_token_service_of_another_owner_gets_nothing(
    scripted: Any, foreign: Any, connect: Any, log_in: Any, password: str, realm: str
) -> None:
    log_in(scripted.host)
    TokenService(scripted, realm=realm.format(foreign=foreign.host))
    with pytest.raises(Forbidden) as caught:
        connect(scripted.host, "team/model").write_blob(BLOB)
    assert caught.value.reason == "TokenRealmRefused"
    assert not foreign.seen
    assert password not in str(caught.value)


def test_a_token_service_of_another_owner_can_be_allowed(
    scripted: Any, foreign: Any, connect: Any, log_in: Any
) -> None:
    log_in(scripted.host)
    service = TokenService(scripted, realm=f"http://{foreign.host}/token")
    foreign.on("GET", "^/token", service.give, times=9)
    options = Options(token_hosts=("localhost",))
    connect(scripted.host, "team/model", options).write_blob(BLOB)
    assert foreign.seen[0].headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "realm", ["", "http://registry.example.com/token", "ftp://127.0.0.1/", "http://a:b@127.0.0.1/"]
)
def test_a_realm_that_is_not_https_is_refused(scripted: Any, connect: Any, realm: str) -> None:
    service = TokenService(scripted)
    service.realm = realm
    with pytest.raises(Forbidden) as caught:
        connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert caught.value.reason == "TokenRealmRefused"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_token_that_is_denied_is_a_missing_login(scripted: Any, connect: Any, faults: Any, status: int) -> None:
    scripted.on("GET", "^/token", faults.status(status), times=9)
    TokenService(scripted)
    with pytest.raises(Forbidden) as caught:
        connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert caught.value.reason == "RegistryUnauthorized"
    assert "docker login" in caught.value.message


def test_a_token_service_that_is_busy_is_asked_again(
    scripted: Any, connect: Any, faults: Any, pauses: list[float]
) -> None:
    scripted.on("GET", "^/token", faults.status(503))
    TokenService(scripted)
    assert not connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert len(pauses) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"token": "a\\r\\nX: y"}', b'{"token": 5}'])
def test_an_answer_without_a_token_is_an_outage(scripted: Any, connect: Any, faults: Any, body: bytes) -> None:
    scripted.on("GET", "^/token", faults.status(200, body), times=99)
    TokenService(scripted)
    with pytest.raises(Unavailable) as caught:
        connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert caught.value.reason == "RegistryUnavailable"


def test_a_wrong_password_is_not_tried_for_ever(scripted: Any, connect: Any, faults: Any, log_in: Any) -> None:
    log_in(scripted.host)
    scripted.on("HEAD", "blobs", faults.status(401, WWW_Authenticate='Basic realm="x"'), times=99)
    with pytest.raises(Forbidden):
        connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert scripted.count("HEAD", "blobs") <= 3


def test_an_unknown_challenge_is_a_missing_login(scripted: Any, connect: Any, faults: Any) -> None:
    scripted.on("HEAD", "blobs", faults.status(401, WWW_Authenticate="Negotiate"), times=9)
    with pytest.raises(Forbidden) as caught:
        connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert caught.value.reason == "RegistryUnauthorized"


def test_the_password_of_another_registry_is_not_sent(
    scripted: Any, foreign: Any, connect: Any, faults: Any, log_in: Any
) -> None:
    log_in(foreign.host)
    scripted.on("HEAD", "blobs", faults.status(401, WWW_Authenticate='Basic realm="x"'), times=9)
    with pytest.raises(Forbidden):
        connect(scripted.host, "team/model").has_blob(BLOB.digest)
    assert all("authorization" not in one.headers for one in scripted.seen)
