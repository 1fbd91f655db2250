"""Credentials from docker's config.json and its helpers."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from modelwright.oci import credentials
from modelwright.oci.credentials import Credentials, find
from modelwright.ports.errors import Forbidden, Invalid

SECRET = "canary-5ecret"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where config.json is expected, with a folder of helpers on PATH."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "config.json"


def write(config: Path, content: object) -> None:
    config.write_text(json.dumps(content))


def helper(config: Path, name: str, script: str) -> None:
    program = config.parent / "bin" / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def basic(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize("key", ["h.io:5000", "https://h.io:5000", "https://h.io:5000/v1/", "https://h.io:5000/v2/"])
def test_an_entry_is_found_however_its_host_is_spelled(config: Path, key: str) -> None:
    write(config, {"auths": {key: basic("ann", f"a:{SECRET}")}, "HttpHeaders": {"x": "y"}})
    assert find("h.io:5000") == Credentials("ann", f"a:{SECRET}")


def test_user_and_password_may_stand_alone(config: Path) -> None:
    write(config, {"auths": {"h.io": {"username": "ann", "password": SECRET}}})
    assert find("h.io") == Credentials("ann", SECRET)


def test_docker_hub_has_a_name_of_its_own(config: Path) -> None:
    write(config, {"auths": {"https://index.docker.io/v1/": basic("ann", SECRET)}})
    assert find("docker.io") == Credentials("ann", SECRET)


def test_an_identity_token_is_found(config: Path) -> None:
    write(config, {"auths": {"h.io": {"identitytoken": SECRET}}})
    assert find("h.io") == Credentials(identity_token=SECRET)


@pytest.mark.parametrize(
    "content", [{}, {"auths": None}, {"auths": {"other.io": basic("a", "b")}}, {"auths": {"h.io": {}}}]
)
def test_no_entry_is_no_login(config: Path, content: object) -> None:
    write(config, content)
    assert find("h.io") is None


def test_no_file_is_no_login(config: Path) -> None:
    assert find("h.io") is None
    assert find("h.io", config.parent / "nowhere" / "config.json") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"auths": 5}', '{"auths": {"h.io": {"auth": "%%%"}}}', "\xff"])
def test_a_broken_file_is_said_to_be_without_its_content(config: Path, text: str) -> None:
    config.write_text(text, encoding="latin-1")
    with pytest.raises(Invalid) as caught:
        find("h.io")
    assert caught.value.reason == "CredentialsInvalid"
    assert str(config) in caught.value.message


def test_a_folder_in_its_place_is_unreadable(config: Path) -> None:
    config.mkdir()
    with pytest.raises(Forbidden) as caught:
        find("h.io")
    assert caught.value.reason == "CredentialsUnreadable"


def test_a_helper_is_asked_for_its_host(config: Path) -> None:
    helper(config, "mine", f'read host; printf \'{{"Username":"%s","Secret":"{SECRET}"}}\' "$host-$1"')
    write(config, {"credHelpers": {"h.io": "mine"}, "auths": {"h.io": basic("old", "old")}})
    assert find("h.io") == Credentials("h.io-get", SECRET)


def test_the_store_is_asked_for_all_hosts_and_entries_are_taken_where_it_has_none(config: Path) -> None:
    helper(config, "store", "echo 'credentials not found in native keychain'; exit 1")
    write(config, {"credsStore": "store", "auths": {"h.io": basic("ann", SECRET), "i.io": {}}})
    assert find("h.io") == Credentials("ann", SECRET)
    assert find("i.io") is None


def test_a_helper_may_give_an_identity_token(config: Path) -> None:
    helper(config, "mine", f'echo \'{{"Username":"<token>","Secret":"{SECRET}"}}\'')
    write(config, {"credsStore": "mine"})
    assert find("h.io") == Credentials(identity_token=SECRET)


@pytest.mark.parametrize("script", [f"echo {SECRET}", f"echo {SECRET} >&2; exit 1", f"echo '[\"{SECRET}\"]'"])
def test_a_helper_that_fails_is_named_but_not_quoted(config: Path, script: str) -> None:
    helper(config, "mine", script)
    write(config, {"credsStore": "mine"})
    with pytest.raises(Forbidden) as caught:
        find("h.io")
    assert caught.value.reason == "CredentialHelperFailed"
    assert "docker-credential-mine" in caught.value.message
    assert SECRET not in str(caught.value)


def test_a_helper_that_is_not_installed_is_named(config: Path) -> None:
    write(config, {"credsStore": "missing"})
    with pytest.raises(Forbidden, match="docker-credential-missing"):
        find("h.io")


@pytest.mark.parametrize("name", ["../evil", "a b", "a;b", "/bin/sh"])
def test_a_helper_is_a_name_not_a_path(config: Path, name: str) -> None:
    write(config, {"credsStore": name})
    with pytest.raises(Invalid):
        find("h.io")


def test_the_config_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert credentials.config_path() == tmp_path / ".docker" / "config.json"


def test_credentials_do_not_show_themselves() -> None:
    shown = repr(Credentials("ann", SECRET, SECRET)) + str(Credentials("ann", SECRET))
    assert SECRET not in shown
    assert "ann" in shown
