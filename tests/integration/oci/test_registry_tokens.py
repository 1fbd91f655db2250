"""Token authentication (distribution's token and OAuth2 specifications, RFC 6750, RFC 6749) over a real socket."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwright.oci.client import connect
from modelwright.oci.push import push_folder
from modelwright.oci.reference import Reference
from modelwright.oci.server import create_registry_app
from modelwright.oci.server.tokens import Tokens
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import Forbidden

EVERYTHING = "repository:a/b:pull,push,delete"
START = ("POST", "a/b/blobs/uploads/")
DELETE = ("DELETE", "a/b/manifests/v1")
READ = ("GET", "a/b/tags/list")


def basic(password: str, user: str = "me") -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def stranger(registry: Any) -> Iterator[Any]:
    with registry.stranger() as client:
        yield client


def token_for(client: Any, scope: str | list[str], password: str | None) -> str:
    headers = basic(password) if password else {}
    answer = client.get("token", params={"service": "modelwright", "scope": scope}, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


def challenge(answer: Any) -> str:
    assert answer.status_code == 401, answer.text
    assert answer.json()["errors"][0]["code"] == "UNAUTHORIZED"
    return str(answer.headers["www-authenticate"])


# What a token allows


@pytest.mark.parametrize(
    ("scope", "logs_in", "allowed"),
    [
        (EVERYTHING, True, [START, DELETE, READ]),
        ("repository:a/b:*", True, [START, DELETE, READ]),
        ("repository:a/b:pull,push", True, [START, READ]),
        ("repository:a/b:delete", True, [DELETE, READ]),
        ("repository:a/b:pull", True, [READ]),
        ("repository(plugin):a/b:push", True, [START, READ]),
        (["repository:x:push", "repository:a/b:push", "repository:a/b:delete"], True, [START, DELETE, READ]),
        ("repository:x:pull,push repository:a/b:pull,push", True, [START, READ]),
        ("repository:other:pull,push,delete", True, [READ]),
        ("repository:a:push", True, [READ]),
        ("registry:catalog:*", True, [READ]),
        ("nonsense", True, [READ]),
        ("repository:a/b:PUSH", True, [READ]),
        ('repository:a/b":push', True, [READ]),
        ("", True, [READ]),
        (EVERYTHING, False, [READ]),
        ("repository:a/b:*", False, [READ]),
        ("", False, [READ]),
    ],
)
def test_a_token_allows_what_was_asked_for_by_those_who_may(
    registry: Any, stranger: Any, scope: str, logs_in: bool, allowed: list[tuple[str, str]]
) -> None:
    token = token_for(stranger, scope, registry.token if logs_in else None)
    assert stranger.get("", headers=bearer(token)).status_code == 200
    for method, path in (START, DELETE, READ):
        answer = stranger.request(method, path, headers=bearer(token))
        if (method, path) in allowed:
            assert answer.status_code in {202, 404}, answer.text
        else:
            wanted = "pull,delete" if method == "DELETE" else "pull,push"
            said = challenge(answer)
            assert said.endswith(f',scope="repository:a/b:{wanted}",error="insufficient_scope"')


def test_an_answer_says_what_was_granted_and_for_how_long(registry: Any, stranger: Any) -> None:
    answer = stranger.get("token", params={"scope": EVERYTHING}, headers=basic(registry.token))
    said = answer.json()
    assert (said["scope"], said["token_type"], said["access_token"]) == (EVERYTHING, "Bearer", said["token"])
    assert (said["expires_in"], said["issued_at"][-1]) == (600, "Z")
    assert answer.headers["cache-control"] == "no-store"
    assert stranger.get("token", params={"scope": EVERYTHING}).json()["scope"] == "repository:a/b:pull"


def test_a_token_pushes_an_upload_to_its_end(registry: Any, stranger: Any) -> None:
    stranger.headers.update(bearer(token_for(stranger, "repository:a/b:pull,push", registry.token)))
    url = stranger.post("a/b/blobs/uploads/").headers["location"]
    assert stranger.patch(url, content=b"layer").status_code == 202
    assert stranger.get(url).status_code == 204
    digest = "sha256:" + hashlib.sha256(b"layer").hexdigest()
    assert stranger.put(url, params={"digest": digest}).status_code == 201


# Tokens that are not, or not any more


@pytest.mark.parametrize(
    "damage",
    [
        lambda token: "",
        lambda token: "x",
        lambda token: ".",
        lambda token: token[:-1],
        lambda token: token + "=",
        lambda token: token.replace(".", "..", 1),
        lambda token: token.partition(".")[0],
        lambda token: "." + token.partition(".")[2],
        lambda token: base64.urlsafe_b64encode(b"{}").decode() + "." + token.partition(".")[2],
        lambda token: token.swapcase(),
        lambda token: token + "\xe4",
        lambda token: Tokens("another secret").issue({"a/b": frozenset({"push"})})[0],
        lambda token: "a" * (1 << 20),
        lambda token: token + "." + "a" * (64 << 10),
    ],
)
@pytest.mark.parametrize("request_", [START, DELETE, READ, ("GET", ""), ("GET", "_catalog")])
def test_a_token_that_is_not_ours_is_refused_so_that_clients_get_another(
    registry: Any, stranger: Any, damage: Any, request_: tuple[str, str]
) -> None:
    token = damage(token_for(stranger, EVERYTHING, registry.token))
    answer = stranger.request(*request_, headers={"Authorization": f"Bearer {token}".strip().encode("latin-1")})
    assert challenge(answer).endswith(',error="invalid_token"')


def test_the_password_is_no_access_token(registry: Any, stranger: Any) -> None:
    assert 'error="invalid_token"' in challenge(stranger.get("", headers=bearer(registry.token)))


def test_a_token_expires(start_registry: Any, tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    with start_registry(tmp_path / "r", clock=lambda: now[0]) as registry, registry.stranger() as client:
        token = token_for(client, EVERYTHING, registry.token)
        answer = client.get("token")
        assert answer.json()["issued_at"] == "2027-01-15T08:00:00Z"
        now[0] += 600
        assert client.request(*START, headers=bearer(token)).status_code == 202
        now[0] += 60
        for request_ in (START, DELETE, READ, ("GET", "")):
            assert 'error="invalid_token"' in challenge(client.request(*request_, headers=bearer(token)))
        token = token_for(client, EVERYTHING, registry.token)
        assert client.request(*START, headers=bearer(token)).status_code == 202


def test_tokens_outlive_a_restart_and_end_with_the_secret(tmp_path: Path) -> None:
    token, _ = Tokens("one").issue({})
    assert Tokens("one").read(token) is not None
    assert Tokens("two").read(token) is None
    with pytest.raises(ValueError, match="empty secret"):
        create_registry_app(ImageStorage(tmp_path), secret="")


# Getting a token by GET


@pytest.mark.parametrize(
    "header",
    [
        basic("wrong")["Authorization"],
        basic("")["Authorization"],
        basic("s3cret-toke")["Authorization"],
        basic("s3cret-token ")["Authorization"],
        "Basic",
        "Basic !!",
        "Basic bWU=",
        "Basic //8=",
        "Basic " + "A" * (1 << 20),
        "Bearer x",
        "Digest username=me",
        "\xe4",
    ],
)
def test_a_wrong_login_gets_no_token(stranger: Any, header: str) -> None:
    answer = stranger.get("token", params={"scope": EVERYTHING}, headers={"Authorization": header.encode("latin-1")})
    assert challenge(answer).startswith("Basic realm=")
    assert "token" not in answer.json()


def test_any_user_name_will_do(registry: Any, stranger: Any) -> None:
    for user in ("", "me", "someone@example.com", "ü"):
        answer = stranger.get("token", params={"scope": EVERYTHING}, headers=basic(registry.token, user))
        assert answer.json()["scope"] == EVERYTHING


def test_too_many_scopes_are_refused_and_the_largest_token_still_works(registry: Any, stranger: Any) -> None:
    names = [f"{number:02}/" + "n" * 252 for number in range(32)]
    scope = [f"repository:{name}:*" for name in names]
    token = token_for(stranger, scope, registry.token)
    assert stranger.post(f"{names[-1]}/blobs/uploads/", headers=bearer(token)).status_code == 202
    answer = stranger.get("token", params={"scope": [*scope, "repository:a/b:pull"]})
    assert answer.status_code == 400


# Getting a token by POST


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"grant_type": "password", "username": "me", "password": "s3cret-token"}, 200, None),
        ({"grant_type": "refresh_token", "refresh_token": "s3cret-token"}, 200, None),
        ({"grant_type": "password", "username": "me", "password": "wrong"}, 401, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": "wrong"}, 401, "invalid_grant"),
        ({"grant_type": "refresh_token", "refresh_token": ""}, 401, "invalid_grant"),
        ({"grant_type": "refresh_token", "password": "s3cret-token"}, 400, "invalid_request"),
        ({"grant_type": "password", "username": "me"}, 400, "invalid_request"),
        ({"grant_type": "authorization_code", "code": "x"}, 400, "unsupported_grant_type"),
        ({"grant_type": ""}, 400, "unsupported_grant_type"),
        ({}, 400, "invalid_request"),
        ({f"field{number}": "x" for number in range(100)}, 400, "invalid_request"),
    ],
)
def test_grants(stranger: Any, form: dict[str, str], status: int, said: str | None) -> None:
    common = {"service": "modelwright", "client_id": "test", "scope": EVERYTHING}
    answer = stranger.post("token", data=common | form)
    assert (answer.status_code, answer.json().get("error")) == (status, said)
    assert answer.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in answer.headers) == (status == 401)
    if status == 200:
        assert answer.json()["scope"] == EVERYTHING
        assert stranger.request(*START, headers=bearer(answer.json()["access_token"])).status_code == 202
    else:
        assert answer.json()["error_description"] == answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("body", [b'{"grant_type": "password"}', b"\xff\xfe\x00", b"grant_type=%ff", b"&&&=;"])
def test_a_body_that_is_no_form_is_refused(stranger: Any, body: bytes) -> None:
    assert stranger.post("token", content=body).status_code == 400


def test_a_huge_form_is_refused(stranger: Any) -> None:
    assert stranger.post("token", content=b"grant_type=" + b"x" * (1 << 20)).status_code == 413


def test_other_methods_are_refused_and_a_repository_may_be_called_token(registry: Any) -> None:
    assert registry.http.delete("token").headers["allow"] == "GET, POST"
    assert registry.http.post("token/blobs/uploads/").status_code == 202


# The challenge


def test_the_realm_is_the_address_that_was_asked(registry: Any, stranger: Any) -> None:
    for host in (f"localhost:{registry.port}", "registry.example.com", "[::1]:5000"):
        said = challenge(stranger.get("", headers={"Host": host}))
        assert said == f'Bearer realm="http://{host}/v2/token",service="modelwright"'


@pytest.mark.parametrize("host", [b'Host: x",realm="http://evil.com/', b"Host: a b", b"Host:", b"Host: [", b"X: y"])
def test_a_host_that_is_none_is_never_put_into_a_challenge(registry: Any, host: bytes) -> None:
    with socket.create_connection(("127.0.0.1", registry.port)) as connection:
        connection.sendall(b"GET /v2/ HTTP/1.1\r\n" + host + b"\r\nConnection: close\r\n\r\n")
        answer = connection.recv(4096)
    assert answer.split()[1] == b"400"
    assert b"evil" not in answer


# Our own client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.onnx").write_bytes(b"weights")
    return tmp_path / "model"


def docker_config(folder: Path, monkeypatch: pytest.MonkeyPatch, host: str, entry: dict[str, str]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"auths": {host: entry}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))


@pytest.mark.parametrize("kind", ["password", "identity token"])
def test_our_client_logs_in_as_docker_did(
    registry: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    password = {"auth": base64.b64encode(f"me:{registry.token}".encode()).decode()}
    entry = password if kind == "password" else {"identitytoken": registry.token}
    docker_config(tmp_path / "docker", monkeypatch, registry.host, entry)
    with connect(Reference(registry.host, "team/model")) as repository:
        pushed = push_folder(folder, repository, ("v1", "v2"))
        repository.delete_manifest("v2")
        assert repository.tags() == ["v1"]
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    with connect(Reference(registry.host, "team/model")) as repository:
        found = repository.resolve("v1")
        assert found is not None
        assert found.digest == pushed.digest


def test_our_client_says_that_a_login_is_missing_or_wrong(
    registry: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "none"))
    with connect(Reference(registry.host, "team/model")) as repository, pytest.raises(Forbidden) as refused:
        push_folder(folder, repository, ("v1",))
    assert refused.value.reason == "RegistryUnauthorized"
    docker_config(tmp_path / "docker", monkeypatch, registry.host, {"username": "me", "password": "wrong-password"})
    with connect(Reference(registry.host, "team/model")) as repository, pytest.raises(Forbidden) as refused:
        push_folder(folder, repository, ("v1",))
    assert refused.value.reason == "RegistryUnauthorized"
    assert "wrong-password" not in str(refused.value)
    assert registry.storage.repositories() == []


# Logs


def test_no_secret_is_logged_or_answered(registry: Any, stranger: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = token_for(stranger, EVERYTHING, registry.token)
        form = {"grant_type": "password", "username": "me", "password": registry.token, "scope": EVERYTHING}
        answers = [
            stranger.post("token", data=form),
            stranger.post("token", data=form | {"grant_type": "other"}),
            stranger.get("token", headers=basic(registry.token + "x")),
            stranger.request(*START, headers=bearer(token)),
            stranger.request(*START, headers=bearer(token + "x")),
        ]
    seen = caplog.text + "".join(answer.text + str(answer.headers) for answer in answers)
    assert registry.token not in seen
    assert token not in caplog.text
    assert basic(registry.token)["Authorization"].split()[1] not in seen
