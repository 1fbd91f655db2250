"""Proving to a registry who we are: Basic, or Bearer tokens by realm, service and scope (RFC 6750, docker token spec).

A credential goes to its registry and to that registry's own token service, and nowhere else.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

import msgspec

from modelwright.oci.credentials import Credentials
from modelwright.oci.reference import is_loopback
from modelwright.ports.errors import Forbidden, Unavailable

Fetch = Callable[[str, Mapping[str, str], Mapping[str, str] | None], tuple[int, bytes]]
"""(url, headers, form) -> status and body; a POST if there is a form, else a GET; follows no redirect."""

_CHALLENGE = re.compile(r'\s*([A-Za-z]+)\s+((?:[a-z_]+=(?:"[^"]*"|[^",\s]+)\s*,?\s*)+)')
_PARAMETER = re.compile(r'([a-z_]+)=(?:"([^"]*)"|([^",\s]+))')
_MARGIN = 10.0
_SHARED_SECOND_LEVELS = frozenset({"ac", "co", "com", "edu", "gov", "net", "org"})


class Challenge(msgspec.Struct, frozen=True):
    """One `WWW-Authenticate` header: the scheme in lower case, and its parameters."""

    scheme: str
    parameters: dict[str, str]


class _Token(msgspec.Struct, frozen=True):
    value: str
    until: float


class _Answer(msgspec.Struct, frozen=True):
    token: str | None = None
    access_token: str | None = None
    expires_in: float | None = None


_ANSWER = msgspec.json.Decoder(_Answer)  # here, for the reason in `manifests`


def parse_challenge(header: str) -> Challenge | None:
    """The first Bearer or Basic challenge of a header, or None."""
    for scheme, rest in _CHALLENGE.findall(header[:8192]):
        if scheme.lower() in {"bearer", "basic"}:
            return Challenge(scheme.lower(), {key: quoted or bare for key, quoted, bare in _PARAMETER.findall(rest)})
    return Challenge("basic", {}) if header.strip().lower() == "basic" else None


class Authenticator:
    """Authorization headers for one registry, cached by scope; safe to use from several threads."""

    def __init__(
        self,
        host: str,
        credentials: Callable[[], Credentials | None],
        fetch: Fetch,
        *,
        plain: bool = False,
        token_hosts: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._find, self._fetch, self._plain = host, credentials, fetch, plain
        self._token_hosts, self._clock = token_hosts, clock
        self._lock = threading.Lock()
        self._challenge: Challenge | None = None
        self._tokens: dict[str, _Token] = {}
        self._credentials: Credentials | None = None
        self._looked_up = False
        self._secrets: set[str] = set()

    def header(self, scope: str) -> str | None:
        """The Authorization header for a scope, as far as the registry has asked for one."""
        with self._lock:
            return None if self._challenge is None else self._header(self._challenge, scope)

    def challenged(self, header: str, scope: str, sent: str | None) -> bool:
        """Take a 401's `WWW-Authenticate`; whether it makes sense to ask again. `sent` is what was refused."""
        challenge = parse_challenge(header)
        if challenge is None:
            return False
        with self._lock:
            self._challenge = challenge
            if sent is not None and self._tokens.get(scope) and sent == f"Bearer {self._tokens[scope].value}":
                del self._tokens[scope]
            fresh = self._header(challenge, scope)
            return fresh is not None and fresh != sent

    def redact(self, text: str) -> str:
        """The text without any secret that this object knows."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _header(self, challenge: Challenge, scope: str) -> str | None:
        if challenge.scheme == "basic":
            return self._basic()
        token = self._tokens.get(scope)
        if token is None or token.until < self._clock():
            token = self._tokens[scope] = self._exchange(challenge, scope)
        return f"Bearer {token.value}"

    def _known(self) -> Credentials | None:
        if not self._looked_up:
            self._credentials = self._find()
            self._looked_up = True
            if self._credentials is not None:
                self._secrets |= {self._credentials.password, self._credentials.identity_token} - {""}
        return self._credentials

    def _basic(self) -> str | None:
        known = self._known()
        if known is None or not known.username:
            return None
        encoded = base64.b64encode(f"{known.username}:{known.password}".encode()).decode()
        self._secrets.add(encoded)
        return f"Basic {encoded}"

    def _exchange(self, challenge: Challenge, scope: str) -> _Token:
        realm = challenge.parameters.get("realm", "")
        self._check_realm(realm)
        service = challenge.parameters.get("service", "")
        scopes = _joined(scope, challenge.parameters.get("scope", ""))
        known = self._known()
        if known is not None and known.identity_token:
            form = {"grant_type": "refresh_token", "service": service, "client_id": "modelwright"}
            form |= {"scope": " ".join(scopes), "refresh_token": known.identity_token}
            return self._token(realm, *self._fetch(realm, {}, form))
        query = urlencode([*([("service", service)] if service else []), *(("scope", one) for one in scopes)])
        basic = self._basic()
        headers = {"Authorization": basic} if basic else {}
        separator = "&" if urlsplit(realm).query else "?"
        return self._token(realm, *self._fetch(f"{realm}{separator}{query}", headers, None))

    def _token(self, realm: str, status: int, body: bytes) -> _Token:
        where = urlsplit(realm).hostname
        if status in {400, 401, 403, 404}:
            raise Forbidden(
                f"{where} gave no token for {self._host} (status {status}): log in with an account that has access, "
                f"by docker login {self._host} or a registry secret",
                reason="RegistryUnauthorized",
            )
        try:
            answer = _ANSWER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = _Answer()
        value = answer.token or answer.access_token
        if status != 200 or not value or not value.isascii() or not value.isprintable():
            raise Unavailable(
                f"{where}, the token service of {self._host}, gave no token (status {status}): try again later",
                reason="RegistryUnavailable",
            )
        self._secrets.add(value)
        return _Token(value, self._clock() + max(0.0, (answer.expires_in or 60.0) - _MARGIN))

    def _check_realm(self, realm: str) -> None:
        parts = urlsplit(realm)
        secure = parts.scheme == "https" or (
            parts.scheme == "http" and self._plain and _plain_allowed(parts.hostname, self._host)
        )
        if not parts.hostname or not secure or parts.username or parts.password:
            raise Forbidden(
                f"{self._host} names {realm[:200]!r} as its token service, which is not https: nothing is sent there",
                reason="TokenRealmRefused",
            )
        if not (related(parts.hostname, bare_host(self._host)) or parts.hostname in self._token_hosts):
            raise Forbidden(
                f"{self._host} names a token service at {parts.hostname}, another owner's host: no credential is sent "
                "there; if it is right, list the host as a token host",
                reason="TokenRealmRefused",
            )


def bare_host(host: str) -> str:
    """The host without its port."""
    return urlsplit(f"//{host}").hostname or host


def related(one: str, registry: str) -> bool:
    """Whether a host is the registry's own: the same, its parent domain, or a sibling or child below that domain."""
    if one == registry:
        return True
    if _is_address(one) or _is_address(registry):
        return False
    parent = registry.partition(".")[2]
    labels = parent.split(".")
    owned = len(labels) > 2 or (len(labels) == 2 and not (labels[0] in _SHARED_SECOND_LEVELS and len(labels[1]) == 2))
    return one.endswith(f".{registry}") or (owned and (one == parent or one.endswith(f".{parent}")))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain_allowed(realm: str | None, registry: str) -> bool:
    return realm is not None and (is_loopback(realm) or realm == "::1" or realm == bare_host(registry))


def _joined(*scopes: str) -> list[str]:
    """Each single scope once, in order."""
    return list(dict.fromkeys(part for scope in scopes for part in scope.split()))
