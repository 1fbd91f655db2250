"""Access tokens: what they allow and until when, in the clear, and an HMAC-SHA256 (RFC 2104) over it.

Nothing is stored: the key is derived from the server's secret, so tokens outlive a restart and end with the secret.
To clients a token means nothing; its form may change from one version to the next.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable

import msgspec

from modelwright.oci.server.scopes import Access

LIFETIME = 600
"""Seconds that clients are told."""

_LEEWAY = 60
"""Seconds that a token is taken for longer, because a request with it may already be on its way."""

_LABEL = b"modelwright registry access token v1"
_MAX_CHARACTERS = 16 << 10


class Grant(msgspec.Struct, frozen=True):
    """What a token allows; `expires` is in seconds since 1970."""

    expires: int
    access: Access


_GRANT = msgspec.json.Decoder(Grant)  # here, for the reason in `oci.manifests`


class Tokens:
    """Makes and reads tokens; `clock` gives seconds since 1970."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        self._key = hmac.digest(secret.encode(), _LABEL, "sha256")
        self._clock = clock

    def issue(self, access: Access) -> tuple[str, int]:
        """A token, and when it was issued."""
        now = int(self._clock())
        content = _text(msgspec.json.encode(Grant(now + LIFETIME, access), order="deterministic"))
        return f"{content}.{self._mark(content)}", now

    def read(self, token: str) -> Grant | None:
        """What a token allows; None if it is not ours, was changed, or has expired."""
        content, dot, mark = token.partition(".")
        if not dot or len(token) > _MAX_CHARACTERS or not token.isascii():
            return None
        if not hmac.compare_digest(mark, self._mark(content)):
            return None
        grant = _GRANT.decode(base64.urlsafe_b64decode(content))
        return grant if self._clock() < grant.expires + _LEEWAY else None

    def _mark(self, content: str) -> str:
        return _text(hmac.digest(self._key, content.encode(), "sha256"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
