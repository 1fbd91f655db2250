"""References: `host/repository:tag@digest`, by the grammar of distribution-spec 1.1 and the distribution project."""

from __future__ import annotations

import re

import msgspec

from modelwright.oci import digests
from modelwright.ports.errors import Invalid
from modelwright.ports.images import Digest

_ALPHANUMERIC = r"[a-z0-9]+"
_COMPONENT = rf"{_ALPHANUMERIC}(?:(?:\.|_|__|-+){_ALPHANUMERIC})*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*\Z")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:.]{{2,45}}\])(?::[0-9]{{1,5}})?\Z")
_MAX_NAME = 255


class Reference(msgspec.Struct, frozen=True):
    """Where an image is: registry host (with port), repository, and a tag, a digest, both or neither."""

    host: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    @property
    def name(self) -> str:
        """`host/repository`."""
        return f"{self.host}/{self.repository}"

    @property
    def target(self) -> str:
        """What to ask the registry for: the digest, which cannot lie, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return self.name + tag + (f"@{self.digest}" if self.digest else "")


def parse(text: str, *, default_host: str | None = None) -> Reference:
    """The reference that `text` spells.

    The part before the first slash is the host if it has a dot or a colon or is `localhost`;
    without a host, `default_host` is taken. Raises Invalid.
    """
    rest, _, digest = text.partition("@")
    name, tag = _split_tag(rest)
    host, repository = split_name(name, default_host=default_host)
    check_tag(tag)
    return Reference(host, repository, tag, digests.parse(digest) if digest or "@" in text else None)


def split_name(name: str, *, default_host: str | None = None) -> tuple[str, str]:
    """Host and repository of `[host/]repository`. Raises Invalid."""
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host, repository = first, rest
    elif default_host:
        host, repository = default_host, name
    else:
        raise Invalid(
            f"{name[:300]!r} names no registry: write HOST/REPOSITORY, such as registry.example.com/{name[:100]}",
            reason="NoRegistry",
        )
    _check_host(host)
    _check_repository(repository)
    if host in {"docker.io", "index.docker.io"} and "/" not in repository:
        repository = f"library/{repository}"
    return host, repository


def check_tag(tag: str | None) -> None:
    """Raises Invalid unless the tag is one, or None."""
    if tag is not None and not _TAG.match(tag):
        raise Invalid(
            f"{tag[:150]!r} is not a tag: up to 128 letters, digits, '_', '.' and '-', not starting with '.' or '-'",
            reason="InvalidReference",
        )


def is_loopback(host: str) -> bool:
    """Whether a `host[:port]` can only mean this machine."""
    bare = host.rsplit(":", 1)[0] if re.search(r":[0-9]+\Z", host) else host
    return bare in {"localhost", "[::1]"} or re.match(r"127(?:\.[0-9]{1,3}){3}\Z", bare) is not None


def _split_tag(text: str) -> tuple[str, str | None]:
    name, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        return text, None
    return name, tag


def _check_host(host: str) -> None:
    if len(host) > _MAX_NAME or not _HOST.match(host):
        raise Invalid(f"{host[:300]!r} is not a registry host (host or host:port)", reason="InvalidReference")


def _check_repository(repository: str) -> None:
    if len(repository) > _MAX_NAME or not _REPOSITORY.match(repository):
        raise Invalid(
            f"{repository[:300]!r} is not a repository name: lower-case letters and digits, "
            "parts joined by one of '.', '_', '__', '-' and separated by '/'",
            reason="InvalidReference",
        )
