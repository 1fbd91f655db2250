"""The registry as an ASGI application, to be mounted at `/v2`."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from modelwright.oci.server import blobs, listings, manifests, token_endpoint, uploads
from modelwright.oci.server.access import TOKEN_PATH, AccessControl
from modelwright.oci.server.context import Call, Registry
from modelwright.oci.server.faults import Fault, fault_of
from modelwright.oci.server.scopes import DELETE, PULL, PUSH
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import ModelwrightError

Handler = Callable[[Call], Awaitable[Response]]

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_VERSION = {"Docker-Distribution-API-Version": "registry/2.0"}

_ROUTES: tuple[tuple[re.Pattern[str], dict[str, tuple[str, Handler]]], ...] = (
    (
        re.compile(r"/(.+)/manifests/([^/]+)\Z"),
        {
            "GET": (PULL, manifests.get),
            "HEAD": (PULL, manifests.get),
            "PUT": (PUSH, manifests.put),
            "DELETE": (DELETE, manifests.delete),
        },
    ),
    (re.compile(r"/(.+)/blobs/uploads/?()\Z"), {"POST": (PUSH, uploads.start)}),
    (
        re.compile(r"/(.+)/blobs/uploads/([^/]+)\Z"),
        {
            "GET": (PUSH, uploads.status),
            "PATCH": (PUSH, uploads.append),
            "PUT": (PUSH, uploads.finish),
            "DELETE": (PUSH, uploads.cancel),
        },
    ),
    (
        re.compile(r"/(.+)/blobs/([^/]+)\Z"),
        {"GET": (PULL, blobs.get), "HEAD": (PULL, blobs.head), "DELETE": (DELETE, blobs.delete)},
    ),
    (re.compile(r"/(.+)/tags/list()\Z"), {"GET": (PULL, listings.tags)}),
    (re.compile(r"/(.+)/referrers/([^/]+)\Z"), {"GET": (PULL, listings.referrers)}),
)
"""By path and method: what one must be allowed to do, and what does it."""


def create_registry_app(
    storage: ImageStorage,
    *,
    secret: str,
    max_blob_bytes: int = 1 << 40,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """The registry, to be mounted at `/v2`.

    Anybody may pull; pushing and deleting take any user with `secret` as the password, or a token that was got by it.
    A blob may have `max_blob_bytes`; `clock` gives seconds since 1970.
    Nothing runs while nobody asks: call `collect_garbage` where it suits. Raises ValueError for an empty secret.
    """
    registry = Registry(storage, max_blob_bytes)
    control = AccessControl(secret, clock)

    async def answer(request: Request) -> Response:
        try:
            response = await _dispatch(registry, request, control)
        except Fault as fault:
            response = fault.response()
        except ModelwrightError as error:
            response = fault_of(error).response()
        except ClientDisconnect:
            response = Response(status_code=400)
        response.headers.update(_VERSION)
        return response

    return Starlette(routes=[Route("/{path:path}", answer, methods=_METHODS)])


async def _dispatch(registry: Registry, request: Request, control: AccessControl) -> Response:
    path = "/" + request.path_params["path"]
    if path == TOKEN_PATH:
        return await token_endpoint.answer(control, request)
    if path == "/":
        control.check(request)
        return Response("{}", media_type="application/json")
    if path == "/_catalog" and request.method == "GET":
        control.check(request, PULL)
        return await listings.catalog(registry, request)
    for pattern, handlers in _ROUTES:
        if match := pattern.match(path):
            if request.method not in handlers:
                raise Fault(
                    405, "UNSUPPORTED", f"{request.method} is not supported here", {"Allow": ", ".join(handlers)}
                )
            action, handler = handlers[request.method]
            call = Call(registry, request, registry.storage.repository(match[1]), match[2])
            control.check(request, action, call.repository.name)
            return await handler(call)
    raise Fault(404, "UNSUPPORTED", "there is nothing at this address")
