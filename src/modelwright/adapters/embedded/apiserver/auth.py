"""Who may use the API: whoever has the token of the data directory."""

from __future__ import annotations

import hmac

from modelwright.adapters.embedded.apiserver.asgi import App, Receive, Scope, Send, header
from modelwright.adapters.embedded.apiserver.status import Unauthorized, refuse

PUBLIC = frozenset({"/healthz", "/livez", "/readyz"})


class BearerToken:
    """ASGI middleware: 401 without `Authorization: Bearer TOKEN`, except for the health of the server."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PUBLIC and not self._allows(scope):
            await refuse(Unauthorized("Unauthorized: the bearer token of this data directory is needed"))(send)
            return
        await self._app(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        scheme, _, token = header(scope, b"authorization").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode("latin-1"), self._expected)
