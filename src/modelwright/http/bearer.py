"""Bearer tokens (RFC 6750) from a file, for a server that asks for one and a client that has one."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from pathlib import Path
from typing import Protocol

from modelwright.http.asgi import Answer, Message, Receive, Send, json_answer, send_answer
from modelwright.http.files import Watched, read_small
from modelwright.http.routes import route_of
from modelwright.ports.errors import Unavailable

log = logging.getLogger("modelwright.server")

_TOKEN = re.compile(rb"[\x21-\x7e]{1,4096}")
_OPEN = frozenset(("healthz", "live", "ready"))
_CHALLENGE = b'Bearer realm="modelwright"'


def read_tokens(path: Path) -> tuple[bytes, ...]:
    """The tokens in a file, one in a line; at least one. Raises Unavailable (TokenNotUsable), which tells none."""
    try:
        tokens = tuple(line.strip() for line in read_small(path).splitlines() if line.strip())
    except (OSError, ValueError) as error:
        raise _not_usable(path, f"cannot be read: {_words(error)}") from None
    if not tokens:
        raise _not_usable(path, "holds no token")
    if not all(_TOKEN.fullmatch(token) for token in tokens):
        raise _not_usable(path, "holds a line that is no token (printable ASCII without blanks, up to 4096 characters)")
    return tokens


class Tokens:
    """The tokens that are taken now. While the file cannot be used, none is, and `fault` says why."""

    def __init__(self, path: Path) -> None:
        self.fault: Unavailable | None = None
        self._path = path
        self._watched = Watched(path)
        self._digests: tuple[bytes, ...] = ()

    def refresh(self) -> None:
        """Reads the file again if it has changed, or could not be used."""
        if not self._watched.changed() and self.fault is None:
            return
        before = self.fault
        try:
            self._digests, self.fault = tuple(map(_digest, read_tokens(self._path))), None
        except Unavailable as error:
            self._digests, self.fault = (), error
            if before is None or before.message != error.message:
                log.error("%s; until then only health is answered", error.message)

    def takes(self, token: bytes) -> bool:
        """Whether it is one of them, in a time that does not tell how much of it is right."""
        found, given = False, _digest(token)
        for each in self._digests:
            found |= hmac.compare_digest(each, given)
        return found


class Application(Protocol):
    """An ASGI application."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None: ...


class Guarded:
    """An application behind a token; whether it lives and is ready is told to everybody."""

    def __init__(self, application: Application, tokens: Tokens) -> None:
        self._application = application
        self._tokens = tokens

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request: 401 without a token that is taken, 503 while there is none that could be."""
        refusal = self._refusal(scope)
        if refusal is None:
            await self._application(scope, receive, send)
        else:
            await send_answer(send, refusal)

    def _refusal(self, scope: Message) -> Answer | None:
        route = route_of(scope["raw_path"])
        verb = route.verb if route is not None else ""
        if self._tokens.fault is not None and verb == "ready":
            return json_answer({"ready": False}, 503)
        if verb in _OPEN:
            return None
        if self._tokens.fault is not None:
            said = "this server asks for a token, and has no usable one itself; its log says why"
            return json_answer({"error": said}, 503, ((b"retry-after", b"1"),))
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return _unauthorized("this server asks for a token: send Authorization: Bearer TOKEN", _CHALLENGE)
        scheme, _, token = given[0].partition(b" ")
        if len(given) == 1 and scheme.lower() == b"bearer" and self._tokens.takes(token.strip()):
            return None
        return _unauthorized("this is not the token that this server asks for", _CHALLENGE + b', error="invalid_token"')


def _unauthorized(said: str, challenge: bytes) -> Answer:
    return json_answer({"error": said}, 401, ((b"www-authenticate", challenge),))


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _not_usable(path: Path, what: str) -> Unavailable:
    return Unavailable(f"the token file {path} {what}; put a token into it", reason="TokenNotUsable")


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
