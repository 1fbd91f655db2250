"""Credentials for registries, from docker's config.json: `auths`, `credHelpers`, `credsStore`.

Helpers are the programs `docker-credential-NAME`; what they say is never put into a message.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import subprocess
from pathlib import Path

import msgspec

from modelwright.ports.errors import Forbidden, Invalid

_HELPER = re.compile(r"[A-Za-z0-9_.-]+\Z")
_HELPER_SECONDS = 30
_DOCKER_HUB = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"  # noqa: S105 - the user name by which helpers mark an identity token


class Credentials(msgspec.Struct, frozen=True):
    """A user with a password, or an identity token to exchange for access tokens."""

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r})"


class _Auth(msgspec.Struct, frozen=True):
    auth: str | None = None
    username: str | None = None
    password: str | None = None
    identitytoken: str | None = None


class _Config(msgspec.Struct, frozen=True, rename={"creds_store": "credsStore", "cred_helpers": "credHelpers"}):
    auths: dict[str, _Auth] | None = None
    creds_store: str | None = None
    cred_helpers: dict[str, str] | None = None


class _Stored(msgspec.Struct, frozen=True, rename="pascal"):
    username: str = ""
    secret: str = ""


_CONFIG, _STORED = msgspec.json.Decoder(_Config), msgspec.json.Decoder(_Stored)  # here, for the reason in `manifests`


def config_path() -> Path:
    """Where docker keeps config.json: `$DOCKER_CONFIG`, else `~/.docker`."""
    folder = os.environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path.home() / ".docker") / "config.json"


def find(host: str, path: Path | None = None) -> Credentials | None:
    """What the config has for a registry host, or None.

    Raises Invalid if the file is no such config, Forbidden if it cannot be read or a helper fails.
    """
    file = path or config_path()
    config = _read(file)
    key = _DOCKER_HUB if host in {"docker.io", "index.docker.io", "registry-1.docker.io"} else host
    helper = (config.cred_helpers or {}).get(host) or config.creds_store
    if helper:
        found = _from_helper(helper, key)
        if found is not None:
            return found
    return _from_auths(config.auths or {}, key, file)


def _read(file: Path) -> _Config:
    try:
        return _CONFIG.decode(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return _Config()
    except OSError as error:
        raise Forbidden(
            f"{file} cannot be read ({error.strerror}): check DOCKER_CONFIG and permissions",
            reason="CredentialsUnreadable",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Invalid(f"{file} is not a docker config.json: mend or remove it", reason="CredentialsInvalid") from None


def _from_auths(auths: dict[str, _Auth], key: str, file: Path) -> Credentials | None:
    for spelling in (
        key,
        f"https://{key}",
        f"https://{key}/",
        f"http://{key}",
        f"https://{key}/v1/",
        f"https://{key}/v2/",
    ):
        if spelling in auths:
            return _decode(auths[spelling], spelling, file)
    return None


def _decode(entry: _Auth, key: str, file: Path) -> Credentials | None:
    username, password = entry.username or "", entry.password or ""
    if entry.auth:
        try:
            username, _, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise Invalid(
                f"{file}: the entry of {key} is not base64 of user:password: log in again", reason="CredentialsInvalid"
            ) from None
    if not (username or password or entry.identitytoken):
        return None
    return Credentials(username, password.rstrip("\0"), entry.identitytoken or "")


def _from_helper(name: str, server: str) -> Credentials | None:
    if not _HELPER.match(name):
        raise Invalid(f"{name[:100]!r} is not the name of a credential helper", reason="CredentialsInvalid")
    program = f"docker-credential-{name}"
    try:
        answer = subprocess.run(
            [program, "get"], input=server.encode(), capture_output=True, timeout=_HELPER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Forbidden(
            f"{program}, which docker's config.json names, cannot be run or does not answer: install or remove it",
            reason="CredentialHelperFailed",
        ) from error
    if answer.returncode != 0:
        if b"not found" in (answer.stdout + answer.stderr).lower():
            return None
        raise Forbidden(f"{program} failed for {server}: log in again", reason="CredentialHelperFailed")
    return _decode_stored(answer.stdout, program)


def _decode_stored(output: bytes, program: str) -> Credentials | None:
    try:
        stored = _STORED.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Forbidden(f"{program} answered something else than JSON", reason="CredentialHelperFailed") from None
    if not (stored.username or stored.secret):
        return None
    if stored.username == _TOKEN_USER:
        return Credentials(identity_token=stored.secret)
    return Credentials(stored.username, stored.secret)
