"""Lists: tags, repositories, referrers. Distribution-spec, "Content Discovery"."""

from __future__ import annotations

from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from modelwright.oci import digests, media
from modelwright.oci.server.context import Call, Registry
from modelwright.oci.server.faults import Fault


async def tags(call: Call) -> Response:
    """The tags of a repository, sorted, in pages."""
    found = await call.registry.work(call.repository.tags)
    if not found and not await call.registry.work(call.repository.digests):
        raise Fault(404, "NAME_UNKNOWN", f"there is no repository {call.repository.name}")
    page, more = _page(call.request, found)
    headers = _link(call.url("tags", "list"), page, call.request) if more else {}
    return _json({"name": call.repository.name, "tags": page}, headers)


async def catalog(registry: Registry, request: Request) -> Response:
    """The repositories, sorted, in pages."""
    page, more = _page(request, await registry.work(registry.storage.repositories))
    root = request.scope.get("root_path", "")
    return _json({"repositories": page}, _link(f"{root}/_catalog", page, request) if more else {})


async def referrers(call: Call) -> Response:
    """What refers to a digest, as an index; all in one page."""
    digest = digests.parse(call.target)
    found = await call.registry.work(lambda: call.repository.referrers(digest))
    wanted = call.request.query_params.get("artifactType")
    if wanted:
        found = [descriptor for descriptor in found if descriptor.artifact_type == wanted]
    index = {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": found}
    headers = {"OCI-Filters-Applied": "artifactType"} if wanted else {}
    return Response(msgspec.json.encode(index), headers=headers, media_type=media.INDEX)


def _page(request: Request, names: list[str]) -> tuple[list[str], bool]:
    """At most `n` names behind `last`, and whether more follow."""
    last = request.query_params.get("last", "")
    count = request.query_params.get("n")
    names = [name for name in names if name > last] if last else names
    if count is None:
        return names, False
    if not (count.isascii() and count.isdigit() and len(count) < 10):
        raise Fault(400, "PAGINATION_NUMBER_INVALID", "n is a number of entries")
    return names[: int(count)], 0 < int(count) < len(names)


def _link(path: str, page: list[str], request: Request) -> dict[str, str]:
    query = urlencode({"n": request.query_params["n"], "last": page[-1]})
    return {"Link": f'<{path}?{query}>; rel="next"'}


def _json(content: object, headers: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(content), headers=headers, media_type="application/json")
