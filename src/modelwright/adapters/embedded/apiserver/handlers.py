"""What is done for a request on a resource: each method is one verb of the API."""

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
from modelwright.adapters.embedded.apiserver.scale import rescaled, scale_of
from modelwright.adapters.embedded.apiserver.status import Subject, success
from modelwright.adapters.embedded.apiserver.watches import Watch
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.resources import Resources, Update, Written
from modelwright.ports.errors import NotFound

Object = dict[str, Any]
Answer = Response | Stream | Watch


class Target:
    """A resource path: which definition, namespace, name and subresource a request is about."""

    __slots__ = ("definition", "name", "namespace", "subresource")

    def __init__(self, definition: Definition, namespace: str, name: str, subresource: str) -> None:
        self.definition = definition
        self.namespace = namespace
        self.name = name
        self.subresource = subresource

    @property
    def subject(self) -> Subject:
        return Subject(name=self.name, group=self.definition.group, kind=self.definition.plural)


class Handlers:
    """The verbs."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def collection(self, request: Request, target: Target) -> Answer | None:
        """GET, POST and DELETE of a collection; None for other methods."""
        if request.method == "GET":
            if request.flag("watch"):
                return Watch(self._resources.objects, target.definition, target.namespace, request)
            return list_(self._resources.objects, target.definition, target.namespace, request)
        if target.definition.namespaced and not target.namespace:
            return None
        if request.method == "POST":
            return await self._create(request, target)
        if request.method == "DELETE" and target.definition.namespaced:
            return await self._delete_all(request, target)
        return None

    async def object(self, request: Request, target: Target) -> Answer | None:
        """GET, PUT, PATCH and DELETE of an object or its status; None for other methods."""
        match request.method:
            case "GET":
                entry = self._resources.get(target.definition, target.namespace, target.name)
                return Response(rendering.one(target.definition, format_of(request), entry))
            case "PUT":
                value = await read_object(request, validation_of(request))
                return self._written(request, target, await self._modify(request, target, lambda _: value))
            case "PATCH":
                update = await read_patch(request, target.definition)
                return self._written(request, target, await self._modify(request, target, update))
            case "DELETE" if not target.subresource:
                return await self._delete(request, target)
        return None

    async def scale(self, request: Request, target: Target) -> Answer | None:
        """GET, PUT and PATCH of the scale; None for other methods."""
        scale = target.definition.scale
        if scale is None:
            raise NotFound("the server could not find the requested resource")
        match request.method:
            case "GET":
                entry = self._resources.get(target.definition, target.namespace, target.name)
                return document(scale_of(scale, entry))
            case "PUT":
                value = await read_object(request, validation_of(request))
                update: Update = lambda _: value  # noqa: E731
            case "PATCH":
                update = await read_patch(request, target.definition)
            case _:
                return None
        written = await self._resources.modify(
            target.definition,
            target.namespace,
            target.name,
            rescaled(scale, update),
            dry_run=is_dry_run(request),
        )
        return document(scale_of(scale, written.entry))

    async def _create(self, request: Request, target: Target) -> Response:
        validation = validation_of(request)
        value = await read_object(request, validation)
        written = await self._resources.create(
            target.definition, target.namespace, value, validation=validation, dry_run=is_dry_run(request)
        )
        return self._written(request, target, written, status=201)

    async def _modify(self, request: Request, target: Target, update: Update) -> Written:
        return await self._resources.modify(
            target.definition,
            target.namespace,
            target.name,
            update,
            subresource="status" if target.subresource else "",
            validation=validation_of(request),
            dry_run=is_dry_run(request),
            versioned=request.method == "PUT",
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
