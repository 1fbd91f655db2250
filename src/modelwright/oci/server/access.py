"""Who may do what: anybody reads, those who log in write. RFC 7617, Basic authentication."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable

from modelwright.oci.server.faults import Fault

Authenticate = Callable[[str, str], bool]
"""Whether this user with this password may push; called in the event loop, so it must not block."""

_READING = frozenset({"GET", "HEAD"})
Handler = Callable[[], Awaitable[None]]


def require_login(method: str, path: str, header: str | None, authenticate: Authenticate) -> None:
    """Raise Fault 401 unless the request only reads, or carries a login.

    The root asks for a login too, although nothing there is secret: clients learn from its challenge that they have
    to send their credentials at all.
    """
    if method in _READING and path != "/" and "/blobs/uploads" not in path:
        return
    login = _credentials(header)
    if login is None or not authenticate(*login):
        raise Fault(
            401,
            "UNAUTHORIZED",
            "log in to push: any user name, with the token of this server as the password",
            {"WWW-Authenticate": 'Basic realm="modelwright", charset="UTF-8"'},
        )


def _credentials(header: str | None) -> tuple[str, str] | None:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None
