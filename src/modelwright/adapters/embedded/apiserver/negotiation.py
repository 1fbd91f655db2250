"""Which of the API's formats a request asks for."""

from __future__ import annotations

from typing import Literal

from modelwright.adapters.embedded.apiserver.asgi import Request
from modelwright.adapters.embedded.apiserver.status import NotAcceptable

Format = Literal["object", "Table", "PartialObjectMetadata"]
_SERVED = ("application/json", "application/*", "*/*")


def format_of(request: Request) -> Format:
    """The first format in Accept that is served. Raises NotAcceptable."""
    accept = request.header(b"accept")
    for item in accept.split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        if media not in _SERVED and accept:
            continue
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        kind = given.get("as", "").removesuffix("List")
        if not kind:
            return "object"
        if given.get("g") == "meta.k8s.io" and given.get("v", "v1") == "v1":
            if kind == "Table":
                return "Table"
            if kind == "PartialObjectMetadata":
                return "PartialObjectMetadata"
    raise NotAcceptable(f"only application/json is served, not {accept[:200]!r}", reason="NotAcceptable")


def wants(request: Request, document: str) -> bool:
    """Whether Accept asks for a document by `as=` before plain JSON: aggregated discovery."""
    for item in request.header(b"accept").split(","):
        parameters = [part.strip() for part in item.split(";")]
        if parameters[0] == "application/json":
            return f"as={document}" in parameters and "v=v2" in parameters
    return False
