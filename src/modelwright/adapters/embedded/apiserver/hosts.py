"""Only this machine may ask: the Host header must be a loopback name, and a browser's page must be one of ours.

A page of another site can make a browser send requests to a loopback port, and by DNS rebinding even read the answers;
then Host is that site's name. Every listener of the control plane is behind this.
"""

from __future__ import annotations

import re

from modelwright.adapters.embedded.apiserver.asgi import App, Receive, Scope, Send, header
from modelwright.adapters.embedded.apiserver.status import refuse
from modelwright.ports.errors import Forbidden

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


class LoopbackOnly:
    """ASGI middleware: 403 for a foreign Host, and for an Origin that is not the very address that was asked."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (why := foreign(scope)):
            await refuse(Forbidden(why, reason="ForeignHost"))(send)
            return
        await self._app(scope, receive, send)


def foreign(scope: Scope) -> str:
    """Why a request is not from this machine or not from our own pages; empty if it is."""
    hosts = [value for key, value in scope["headers"] if key == b"host"]
    host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
    if _LOOPBACK.fullmatch(host) is None:
        return f"the Host header {host[:100]!r} is not a loopback name: use 127.0.0.1, localhost or [::1]"
    origin = header(scope, b"origin")
    if origin and origin.lower() != f"{scope['scheme']}://{host}".lower():
        return f"requests of pages of {origin[:100]!r} are refused"
    return ""
