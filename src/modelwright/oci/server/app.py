"""The registry as an ASGI application, to be mounted at `/v2`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from modelwright.oci.server import blobs, listings, manifests, uploads
from modelwright.oci.server.access import Authenticate, require_login
from modelwright.oci.server.context import Call, Registry
from modelwright.oci.server.faults import Fault, fault_of
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import ModelwrightError

Handler = Callable[[Call], Awaitable[Response]]

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_VERSION = {"Docker-Distribution-API-Version": "registry/2.0"}

_ROUTES: tuple[tuple[re.Pattern[str], dict[str, Handler]], ...] = (
    (
        re.compile(r"/(.+)/manifests/([^/]+)\Z"),
        {"GET": manifests.get, "HEAD": manifests.get, "PUT": manifests.put, "DELETE": manifests.delete},
    ),
    (re.compile(r"/(.+)/blobs/uploads/?()\Z"), {"POST": uploads.start}),
    (
        re.compile(r"/(.+)/blobs/uploads/([^/]+)\Z"),
        {"GET": uploads.status, "PATCH": uploads.append, "PUT": uploads.finish, "DELETE": uploads.cancel},
    ),
    (re.compile(r"/(.+)/blobs/([^/]+)\Z"), {"GET": blobs.get, "HEAD": blobs.head, "DELETE": blobs.delete}),
    (re.compile(r"/(.+)/tags/list()\Z"), {"GET": listings.tags}),
    (re.compile(r"/(.+)/referrers/([^/]+)\Z"), {"GET": listings.referrers}),
)


def create_registry_app(
    storage: ImageStorage,
    *,
    authenticate: Authenticate,
    max_blob_bytes: int = 1 << 40,
) -> Starlette:
    """The registry, to be mounted at `/v2`.

    Anybody may pull; `authenticate(user, password)` says who may push and delete (it is called in the event loop).
    A blob may have `max_blob_bytes`. Nothing runs while nobody asks: call `collect_garbage` where it suits.
    """
    registry = Registry(storage, max_blob_bytes)

    async def answer(request: Request) -> Response:
        try:
            response = await _dispatch(registry, request, authenticate)
        except Fault as fault:
            response = fault.response()
        except ModelwrightError as error:
            response = fault_of(error).response()
        except ClientDisconnect:
            response = Response(status_code=400)
        response.headers.update(_VERSION)
        return response

    return Starlette(routes=[Route("/{path:path}", answer, methods=_METHODS)])


async def _dispatch(registry: Registry, request: Request, authenticate: Authenticate) -> Response:
    path = "/" + request.path_params["path"]
    require_login(request.method, path, request.headers.get("authorization"), authenticate)
    if path == "/":
        return Response("{}", media_type="application/json")
    if path == "/_catalog" and request.method == "GET":
        return await listings.catalog(registry, request)
    for pattern, handlers in _ROUTES:
        if match := pattern.match(path):
            handler = handlers.get(request.method)
            if handler is None:
                raise Fault(
                    405, "UNSUPPORTED", f"{request.method} is not supported here", {"Allow": ", ".join(handlers)}
                )
            return await handler(Call(registry, request, registry.storage.repository(match[1]), match[2]))
    raise Fault(404, "UNSUPPORTED", "there is nothing at this address")
