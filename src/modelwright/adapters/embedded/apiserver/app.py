"""The API server as an ASGI application."""

from __future__ import annotations

import logging

from modelwright.adapters.embedded.apiserver.asgi import App, Receive, Request, Response, Scope, Send, document
from modelwright.adapters.embedded.apiserver.auth import BearerToken
from modelwright.adapters.embedded.apiserver.discovery import Discovery
from modelwright.adapters.embedded.apiserver.handlers import Answer, Handlers, Target
from modelwright.adapters.embedded.apiserver.hosts import LoopbackOnly
from modelwright.adapters.embedded.apiserver.openapi import OpenApi
from modelwright.adapters.embedded.apiserver.status import MethodNotAllowed, refuse
from modelwright.adapters.embedded.resources import Resources
from modelwright.api.kind import Kind
from modelwright.ports.errors import ModelwrightError, NotFound

log = logging.getLogger(__name__)
OK = Response(b"ok", content_type=b"text/plain; charset=utf-8")
VERSION = {
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


class ApiServer:
    """Answers every request with the document, object, list, watch or Status that the Kubernetes API defines."""

    def __init__(self, resources: Resources, kinds: tuple[Kind, ...]) -> None:
        self._definitions = resources.definitions
        self._handlers = Handlers(resources)
        self._discovery = Discovery(resources.definitions)
        self._openapi = OpenApi(kinds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        target: Target | None = None
        try:
            target = self._target(request.path)
            answer = await self._handle(request, target) if target else self._document(request)
        except ModelwrightError as error:
            answer = refuse(error, target.subject if target else None)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            answer = refuse(ModelwrightError("an internal error: see the log of the control plane"))
        await answer(send)

    async def _handle(self, request: Request, target: Target) -> Answer:
        answer: Answer | None
        if not target.name:
            answer = await self._handlers.collection(request, target)
        elif target.subresource == "scale":
            answer = await self._handlers.scale(request, target)
        else:
            answer = await self._handlers.object(request, target)
        if answer is None:
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        return answer

    def _target(self, path: str) -> Target | None:
        """The resource that a path names; None if it is no resource path."""
        segments = path.strip("/").split("/")
        if segments[0] == "api":
            group, rest = "", segments[1:]
        elif segments[0] == "apis" and len(segments) > 2:
            group, rest = segments[1], segments[2:]
        else:
            return None
        version, rest = (rest[0], rest[1:]) if rest else ("", [])
        if not rest:
            return None
        namespace = ""
        if rest[0] == "namespaces" and (len(rest) > 2 or group) and not (not group and rest[2:] == ["status"]):
            namespace, rest = (rest[1], rest[2:]) if len(rest) > 2 else ("", [])
        definition = self._definitions.by_plural(group, version, rest[0]) if rest else None
        if definition is None or len(rest) > 3 or not all(rest) or (namespace and not definition.namespaced):
            return None
        name, subresource = (*rest[1:], "", "")[:2]
        if subresource and not _has(definition.has_status, definition.scale is not None, subresource):
            return None
        if name and definition.namespaced and not namespace:
            return None
        return Target(definition, namespace, name, subresource)

    def _document(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        found = self._fixed(request, path)
        if found is None:
            raise NotFound("the server could not find the requested resource")
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        return found

    def _fixed(self, request: Request, path: str) -> Response | None:
        if path in ("/healthz", "/livez", "/readyz"):
            return OK
        if path == "/version":
            return document(VERSION)
        if path.startswith("/openapi/v3"):
            return self._openapi.answer(request, path)
        return self._discovery.answer(request, path)


def _has(status: bool, scale: bool, subresource: str) -> bool:
    return (subresource == "status" and status) or (subresource == "scale" and scale)


def create_api_app(resources: Resources, kinds: tuple[Kind, ...], token: str) -> App:
    """The application behind its guards: loopback names only, then the bearer token."""
    return LoopbackOnly(BearerToken(ApiServer(resources, kinds), token))
