"""Addresses of downloads, read so strictly that no two programs could read them differently.

RFC 3986 and 6761; what browsers and resolvers take for IPv4 in other spellings (decimal, octal, hex, short) is refused.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import unquote, urljoin

import msgspec

from modelwright.ports.errors import Forbidden, Invalid

_MAX = 8192
_URL = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#@]*)@)?(?P<host>\[[^\]/?#@]*\]|[^/?#@:\[\]]*)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?:#.*)?\Z",
    re.IGNORECASE,
)
_CHARACTERS = re.compile(r"[!-~]+\Z")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Url(msgspec.Struct, frozen=True):
    """An http or https address in its parts; `host` is a name in lower case, or an IP address without brackets."""

    scheme: str
    host: str
    port: int
    target: str
    user: str = ""

    @property
    def authority(self) -> str:
        """`host[:port]`, for the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """What credentials are bound to."""
        return self.scheme, self.host, self.port

    @property
    def name(self) -> str:
        """The last part of the path, decoded; it may be empty or unsound."""
        return unquote(self.target.partition("?")[0].rpartition("/")[2])

    def __str__(self) -> str:
        """For messages: user, password and query are left out, since they may be secret."""
        path, query, _ = self.target.partition("?")
        return f"{self.scheme}://{self.authority}{path}" + ("?..." if query else "")


def parse(text: str) -> Url:
    """Raises Invalid (DownloadURLInvalid)."""
    if len(text) > _MAX:
        raise _invalid(f"it is over {_MAX} characters long")
    if not _CHARACTERS.match(text) or "\\" in text or _ESCAPE.search(text):
        raise _invalid("spaces, control characters, backslashes and letters beyond ASCII must be written as %XX")
    match = _URL.match(text)
    if match is None:
        raise _invalid("it is not of the form http://HOST/PATH, https://HOST/PATH or file:///PATH")
    scheme = match["scheme"].lower()
    port = int(match["port"] or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65536:
        raise _invalid("its port is not between 1 and 65535")
    target = (match["path"] or "/") + (match["query"] or "")
    return Url(scheme, _host(match["host"].lower()), port, target, match["user"] or "")


def redirected(url: Url, location: str) -> Url:
    """Where a redirect leads. Raises Invalid, or Forbidden (DownloadRedirectForbidden) for another scheme."""
    if location and not _CHARACTERS.match(location):
        raise _invalid(f"{url} redirects to an address with spaces or control characters")
    try:
        target = urljoin(f"{url.scheme}://{url.authority}{url.target}", location)
    except ValueError:
        raise _invalid(f"{url} redirects to what is no address") from None
    scheme = target.partition(":")[0].lower()
    if scheme not in _DEFAULT_PORTS or (url.scheme, scheme) == ("https", "http"):
        raise Forbidden(
            f"{url} redirects to a {scheme[:20]!r} address: only https, or from http also http, may follow",
            reason="DownloadRedirectForbidden",
        )
    return parse(target)


def _host(host: str) -> str:
    if host.startswith("["):
        return _ipv6(host[1:-1])
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMBER.match(labels[-1]):
        return _ipv4(host)
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        raise _invalid("its host is neither a name nor an IP address (write names beyond ASCII as xn--...)")
    return host


def _ipv4(host: str) -> str:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        raise _invalid("its host looks like an IPv4 address, but is not four decimal numbers with dots") from None


def _ipv6(host: str) -> str:
    try:
        if "%" in host:
            raise ValueError
        return str(ipaddress.IPv6Address(host))
    except ValueError:
        raise _invalid("its host is not an IPv6 address (zones are not supported)") from None


def _invalid(why: str) -> Invalid:
    return Invalid(f"the download URL cannot be used: {why}", reason="DownloadURLInvalid")
