"""Who may do what: anybody pulls; pushing and deleting takes a token of our token endpoint, or its password itself.

Distribution's token authentication: a challenge (RFC 6750) says where tokens are to be had, and for what scope.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import time
from collections.abc import Callable

from starlette.requests import Request

from modelwright.oci.server.faults import Fault
from modelwright.oci.server.scopes import PULL, spell
from modelwright.oci.server.tokens import Tokens

SERVICE = "modelwright"
TOKEN_PATH = "/token"  # noqa: S105 - a path, beside the names of repositories, which are always followed by more
LOG_IN = "log in to push: any user name, with the token of this server as the password"
WRONG = "wrong password: log in with any user name, and the token of this server as the password"

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class AccessControl:
    """Knows those who log in by the secret, and what was given to them by its tokens."""

    def __init__(self, secret: str, clock: Callable[[], float] = time.time) -> None:
        if not secret:
            raise ValueError("an empty secret would let everybody push")
        self._secret = secret.encode()
        self.tokens = Tokens(secret, clock)

    def check(self, request: Request, action: str = "", repository: str = "") -> None:
        """Raise Fault 401 unless the request may do this.

        Without an action it is the root, which asks for any token although nothing there is secret: from its challenge
        clients learn how to log in.
        """
        header = request.headers.get("authorization", "")
        scope = spell({repository: {PULL, action}}) if action and repository else ""
        scheme, _, value = header.partition(" ")
        if scheme.lower() != "bearer":
            if action != PULL and not self.logged_in(header):
                raise _challenge(request, scope, LOG_IN)
            return
        grant = self.tokens.read(value.strip())
        if grant is None:
            raise _challenge(request, scope, "the access token is not ours, or has expired", "invalid_token")
        if action not in {"", PULL} and action not in grant.access.get(repository, ()):
            raise _challenge(request, scope, LOG_IN, "insufficient_scope")

    def logged_in(self, header: str) -> bool:
        """Whether an Authorization header is Basic (RFC 7617) with the right password."""
        scheme, _, encoded = header.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            _, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        return bool(colon) and self.is_secret(password)

    def is_secret(self, password: str) -> bool:
        """Whether it is the password; takes the same time whatever it is."""
        return hmac.compare_digest(password.encode(), self._secret)


def _challenge(request: Request, scope: str, message: str, error: str = "") -> Fault:
    """The realm has the host by which the client knows us: its credentials go there and nowhere else."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        return Fault(400, "UNSUPPORTED", "the Host header names no host")
    realm = f"{request.scope['scheme']}://{host}{request.scope.get('root_path', '')}{TOKEN_PATH}"
    parameters = {"realm": realm, "service": SERVICE, "scope": scope, "error": error}
    written = ",".join(f'{key}="{value}"' for key, value in parameters.items() if value)
    return Fault(401, "UNAUTHORIZED", message, {"WWW-Authenticate": f"Bearer {written}"})
