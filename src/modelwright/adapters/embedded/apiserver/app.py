"""The API server as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from modelwright.adapters.embedded.apiserver.asgi import App, Receive, Request, Response, Scope, Send, document
from modelwright.adapters.embedded.apiserver.auth import BearerToken
from modelwright.adapters.embedded.apiserver.discovery import Discovery
from modelwright.adapters.embedded.apiserver.handlers import Answer, Handlers
from modelwright.adapters.embedded.apiserver.hosts import LoopbackOnly
from modelwright.adapters.embedded.apiserver.openapi import OpenApi
from modelwright.adapters.embedded.apiserver.routes import Target, target_of
from modelwright.adapters.embedded.apiserver.status import MethodNotAllowed, refuse
from modelwright.adapters.embedded.refusals import BadRequest
from modelwright.adapters.embedded.resources import Resources
from modelwright.api.kind import Kind
from modelwright.api.kinds import KINDS
from modelwright.ports.errors import ModelwrightError, NotFound

log = logging.getLogger(__name__)

_OK = Response(b"ok", content_type=b"text/plain; charset=utf-8")
_VERSION = document(
    {
        "major": "1",
        "minor": "35",
        "gitVersion": "v1.35.0+modelwright",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }
)
_FIXED = {"/healthz": _OK, "/livez": _OK, "/readyz": _OK, "/version": _VERSION}


def create_api_app(resources: Resources, token: str, kinds: Iterable[Kind] = KINDS) -> App:
    """The API server behind its guards: loopback names only, then the bearer token. `kinds` are for OpenAPI."""
    return LoopbackOnly(BearerToken(ApiServer(resources, kinds), token))


class ApiServer:
    """Answers every request with the document, object, list, watch or Status that the Kubernetes API defines."""

    def __init__(self, resources: Resources, kinds: Iterable[Kind]) -> None:
        self._definitions = resources.definitions
        self._handlers = Handlers(resources)
        self._discovery = Discovery(resources.definitions)
        self._openapi = OpenApi(kinds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        answer = await self._answer(request)
        await answer(send)

    async def _answer(self, request: Request) -> Answer:
        target: Target | None = None
        try:
            target = target_of(self._definitions, request.path)
            answer = await self._handlers.handle(request, target) if target else self._document(request)
            if answer is None:
                raise MethodNotAllowed("the server does not allow this method on the requested resource")
        except ModelwrightError as error:
            return refuse(error, target.subject if target else None)
        except RecursionError:
            return refuse(BadRequest("the object is nested too deeply"), target.subject if target else None)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return refuse(ModelwrightError("an internal error: the log of the control plane has more"))
        return answer

    def _document(self, request: Request) -> Response | None:
        """What is not a resource; None for a method that is not GET. Raises NotFound."""
        path = request.path.rstrip("/")
        found = _FIXED.get(path) or self._discovery.answer(request, path) or self._openapi.answer(request, path)
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found if request.method in ("GET", "HEAD") else None
