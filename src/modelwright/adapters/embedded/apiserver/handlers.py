"""What is done for a request on a resource."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from modelwright.adapters.embedded.apiserver import rendering
from modelwright.adapters.embedded.apiserver.asgi import Request, Response, Stream, document
from modelwright.adapters.embedded.apiserver.bodies import (
    is_dry_run,
    read_deletion,
    read_object,
    read_patch,
    validation_of,
)
from modelwright.adapters.embedded.apiserver.lists import find, list_
from modelwright.adapters.embedded.apiserver.negotiation import format_of
from modelwright.adapters.embedded.apiserver.routes import Target
from modelwright.adapters.embedded.apiserver.scale import rescaled, scale_of
from modelwright.adapters.embedded.apiserver.status import success
from modelwright.adapters.embedded.apiserver.watches import Watch
from modelwright.adapters.embedded.editing import Written
from modelwright.adapters.embedded.resources import Resources, Update
from modelwright.api.kind import Scale

Object = dict[str, Any]
Answer = Response | Stream | Watch


class Handlers:
    """The verbs of the API."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def handle(self, request: Request, target: Target) -> Answer | None:
        """The answer to a request on a resource; None for a method that the resource does not have."""
        if not target.name:
            return await self._collection(request, target)
        if target.subresource == "scale" and target.definition.scale is not None:
            return await self._scale(request, target, target.definition.scale)
        return await self._object(request, target)

    async def _collection(self, request: Request, target: Target) -> Answer | None:
        definition, everywhere = target.definition, target.definition.namespaced and not target.namespace
        match request.method:
            case "GET" if request.flag("watch"):
                return Watch(self._resources.objects, definition, target.namespace, request)
            case "GET":
                return list_(self._resources.objects, definition, target.namespace, request)
            case "POST" if not everywhere:
                return await self._create(request, target)
            case "DELETE" if definition.namespaced and not everywhere:
                return await self._delete_all(request, target)
        return None

    async def _object(self, request: Request, target: Target) -> Answer | None:
        match request.method:
            case "GET":
                entry = self._resources.get(target.definition, target.namespace, target.name)
                return Response(rendering.one(target.definition, format_of(request), entry))
            case "PUT" | "PATCH":
                return await self._change(request, target)
            case "DELETE" if not target.subresource:
                return await self._delete(request, target)
        return None

    async def _scale(self, request: Request, target: Target, scale: Scale) -> Answer | None:
        match request.method:
            case "GET":
                entry = self._resources.get(target.definition, target.namespace, target.name)
                return document(scale_of(scale, entry))
            case "PUT" | "PATCH":
                update = rescaled(scale, await self._read_update(request, target))
                written = await self._modify(request, target, update)
                return document(scale_of(scale, written.entry))
        return None

    async def _create(self, request: Request, target: Target) -> Response:
        validation = validation_of(request)
        value = await read_object(request, validation)
        written = await self._resources.create(
            target.definition, target.namespace, value, validation=validation, dry_run=is_dry_run(request)
        )
        return self._written(request, target, written, status=201)

    async def _change(self, request: Request, target: Target) -> Response:
        update = await self._read_update(request, target)
        return self._written(request, target, await self._modify(request, target, update))

    async def _read_update(self, request: Request, target: Target) -> Update:
        if request.method == "PATCH":
            return await read_patch(request, target.definition)
        value = await read_object(request, validation_of(request))
        return lambda _: value

    async def _modify(self, request: Request, target: Target, update: Update) -> Written:
        return await self._resources.modify(
            target.definition,
            target.namespace,
            target.name,
            update,
            subresource="status" if target.subresource == "status" else "",
            validation=validation_of(request),
            dry_run=is_dry_run(request),
            versioned=request.method == "PUT" and target.subresource != "scale",
        )

    async def _delete(self, request: Request, target: Target) -> Response:
        how = await read_deletion(request)
        deleted = await self._resources.delete(target.definition, target.namespace, target.name, how)
        if not deleted.gone:
            return Response(rendering.one(target.definition, format_of(request), deleted.entry))
        return document(success(msgspec.structs.replace(target.subject, uid=deleted.entry.uid)))

    async def _delete_all(self, request: Request, target: Target) -> Response:
        how = await read_deletion(request)
        listed = find(self._resources.objects, target.definition, target.namespace, request)
        deleted = await self._resources.delete_all(target.definition, listed.entries, how)
        metadata = {"resourceVersion": str(self._resources.objects.version)}
        return Response(b"".join(rendering.parts(target.definition, format_of(request), deleted, metadata)))

    def _written(self, request: Request, target: Target, written: Written, status: int = 200) -> Response:
        body = rendering.one(target.definition, format_of(request), written.entry)
        # A header is ASCII: JSON's escapes keep field names of any language in it.
        headers = tuple((b"warning", b"299 - " + json.dumps(text).encode()) for text in written.warnings)
        return Response(body, status, headers=headers)
