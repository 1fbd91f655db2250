"""A thin client of the Kubernetes API: one method per verb, JSON in and out, errors of the ports.

Reference: https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, cast
from urllib.parse import urlencode

import msgspec

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.faults import refusal
from modelwright.adapters.kubernetes.resource import Resource
from modelwright.adapters.kubernetes.transport import Answered, Guard, Request, Response, Stream, Transport
from modelwright.ports.errors import Expired, Unavailable

JSON = dict[str, Any]
Params = Mapping[str, str | int | bool]
Propagation = Literal["Background", "Foreground", "Orphan"]
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PAGE = 500
FIRST_FAULT = 400


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind: in one namespace (empty: all), by labels, by fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def params(self) -> dict[str, str | int | bool]:
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in chosen.items() if value}


EVERYTHING = Selection()


class Page(msgspec.Struct, frozen=True):
    """A page of a list, its items still as bytes; `token` is empty on the last one."""

    items: tuple[msgspec.Raw, ...]
    version: str
    token: str


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMetadata
    items: tuple[msgspec.Raw, ...] | None = None


_LIST = msgspec.json.Decoder(_List)
_ENCODER = msgspec.json.Encoder()


class KubernetesClient:
    """Talks to one API server with one identity; close it with `aclose` or `async with`.

    Every method raises Unavailable where no good answer came, Forbidden, and what its docstring adds.
    `field_manager` is the name under which changes are noted in managedFields. `guard` is called right before each
    writing request is sent: what it raises keeps it from being sent. `answered` is told how each request was answered.
    """

    def __init__(
        self,
        access: Access,
        *,
        field_manager: str = "modelwright",
        guard: Guard | None = None,
        answered: Answered | None = None,
    ) -> None:
        self._transport = Transport(access, guard=guard, answered=answered)
        self._manager = field_manager
        self.url = self._transport.url
        self.namespace = access.namespace

    async def __aenter__(self) -> KubernetesClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()

    # Reading --------------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, namespace: str, name: str) -> JSON:
        """One object. Raises NotFound."""
        return _decode(await self.get_bytes(resource, namespace, name))

    async def get_bytes(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object as it came over the wire. Raises NotFound."""
        return await self._send("GET", resource.path(namespace, name))

    async def pages(
        self, resource: Resource, where: Selection = EVERYTHING, limit: int = PAGE
    ) -> AsyncGenerator[Page, None]:
        """All objects, page by page, at one version. Raises Expired when that is compacted away halfway."""
        token = ""
        while True:
            params = {**where.params(), "limit": limit, **({"continue": token} if token else {})}
            body = await self._send("GET", resource.path(where.namespace), params)
            try:
                page = _LIST.decode(body)
            except msgspec.DecodeError as fault:
                raise self._garbage(fault) from None
            token = page.metadata.continue_
            yield Page(page.items or (), page.metadata.resource_version, token)
            if not token:
                return

    async def list_bytes(
        self, resource: Resource, where: Selection = EVERYTHING, limit: int = PAGE
    ) -> tuple[list[msgspec.Raw], str]:
        """All objects, each as bytes, and the version to watch from. A list that expired halfway is begun again."""
        for _ in range(3):
            items: list[msgspec.Raw] = []
            version = ""
            try:
                async for page in self.pages(resource, where, limit):
                    items += page.items
                    version = page.version
            except Expired:
                continue
            return items, version
        # Without pages it cannot expire halfway.
        async for page in self.pages(resource, where, limit=0):
            return list(page.items), page.version
        raise Unavailable(f"{self.url} gave no list of {resource.qualified}")

    async def list(self, resource: Resource, where: Selection = EVERYTHING) -> list[JSON]:
        """All objects."""
        items, _ = await self.list_bytes(resource, where)
        return [_decode(item) for item in items]

    async def table(self, resource: Resource, where: Selection = EVERYTHING, name: str = "") -> JSON:
        """Objects as the server would print them: a meta/v1 Table, all pages in one. Raises NotFound for a name."""
        headers = {"Accept": TABLE}
        if name:
            return _decode(await self._send("GET", resource.path(where.namespace, name), headers=headers))
        table: JSON = {}
        token = ""
        while True:
            params = {**where.params(), "limit": PAGE, **({"continue": token} if token else {})}
            page = _decode(await self._send("GET", resource.path(where.namespace), params, headers=headers))
            if table:
                table["rows"] = (table.get("rows") or []) + (page.get("rows") or [])
                table["metadata"] = page["metadata"]
            else:
                table = page
            token = (page.get("metadata") or {}).get("continue", "")
            if not token:
                return table

    # Writing --------------------------------------------------------------------------------------------------------

    async def create(
        self, resource: Resource, namespace: str, body: Any, *, dry_run: bool = False, params: Params | None = None
    ) -> JSON:
        """Raises AlreadyExists, InvalidResource, NotFound (the namespace)."""
        return _decode(await self.create_bytes(resource, namespace, body, dry_run=dry_run, params=params))

    async def create_bytes(
        self, resource: Resource, namespace: str, body: Any, *, dry_run: bool = False, params: Params | None = None
    ) -> bytes:
        """As `create`, the answer as bytes."""
        path = resource.path(namespace)
        return await self._send("POST", path, self._write(params, dry_run=dry_run), body=_ENCODER.encode(body))

    async def replace(
        self, resource: Resource, namespace: str, name: str, body: Any, *, subresource: str = "", dry_run: bool = False
    ) -> bytes:
        """PUT: with a resourceVersion in its metadata it raises Conflict if that is not the newest."""
        path = resource.path(namespace, name, subresource)
        return await self._send("PUT", path, self._write(dry_run=dry_run), body=_ENCODER.encode(body))

    async def merge_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        subresource: str = "",
        dry_run: bool = False,
        params: Params | None = None,
    ) -> JSON:
        """RFC 7386. A resourceVersion in the patch's metadata makes it raise Conflict if that is not the newest."""
        path = resource.path(namespace, name, subresource)
        return _decode(await self._patch(path, MERGE_PATCH, patch, self._write(params, dry_run=dry_run)))

    async def json_patch(
        self, resource: Resource, namespace: str, name: str, patch: Sequence[JSON], *, subresource: str = ""
    ) -> bytes:
        """RFC 6902. Replacing /metadata/resourceVersion makes it raise Conflict if that is not the newest."""
        return await self._patch(resource.path(namespace, name, subresource), JSON_PATCH, patch, self._write())

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: Any, *, force: bool = False, subresource: str = ""
    ) -> JSON:
        """Server-side apply. Raises Conflict for an old version, or a field of another manager's (see `force`)."""
        path = resource.path(namespace, name, subresource)
        return _decode(await self._patch(path, APPLY_PATCH, body, {**self._write(), "force": force}))

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> JSON:
        """Only if uid and version are these, where given: else Conflict. Raises NotFound. The object, or a Status.

        `grace_seconds` is for Pods: how long one has to end, None as it says itself.
        """
        preconditions = {name: value for name, value in {"uid": uid, "resourceVersion": version}.items() if value}
        options: JSON = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        params = {"dryRun": "All"} if dry_run else {}
        return _decode(
            await self._send("DELETE", resource.path(namespace, name), params, body=_ENCODER.encode(options))
        )

    # Anything else --------------------------------------------------------------------------------------------------

    async def raw(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Response:
        """Any request; an answer of 400 or more raises its error."""
        response = await self._transport.request(_request(method, path, params, headers, body))
        if response.status >= FIRST_FAULT:
            raise refusal(*response, _what(method, path))
        return response

    def stream(
        self, path: str, params: Params | None = None, *, headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        """GET whose answer is read as it comes, such as logs or a watch; the caller looks at its status."""
        return self._transport.stream(_request("GET", path, params, headers, b""))

    async def _send(
        self,
        method: str,
        path: str,
        params: Params | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> bytes:
        return (await self.raw(method, path, params, headers=headers, body=body)).body

    async def _patch(self, path: str, media_type: str, patch: Any, params: Params) -> bytes:
        return await self._send(
            "PATCH", path, params, headers={"Content-Type": media_type}, body=_ENCODER.encode(patch)
        )

    def _write(self, params: Params | None = None, *, dry_run: bool = False) -> dict[str, str | int | bool]:
        return {"fieldManager": self._manager, **({"dryRun": "All"} if dry_run else {}), **(params or {})}

    def _garbage(self, fault: Exception) -> Unavailable:
        return Unavailable(f"{self.url} gave an answer that cannot be read: {fault}", reason="BadAnswer")


def _request(method: str, path: str, params: Params | None, headers: Mapping[str, str] | None, body: bytes) -> Request:
    query = (
        urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in params.items()})
        if params
        else ""
    )
    merged = {"Accept": "application/json", "User-Agent": "modelwright"}
    if body:
        merged["Content-Type"] = "application/json"
    merged.update(headers or {})
    return Request(method, f"{path}?{query}" if query else path, merged, body)


def _what(method: str, path: str) -> str:
    return f"{method} {path}"


def _decode(body: bytes | msgspec.Raw) -> JSON:
    try:
        return cast("JSON", msgspec.json.decode(body, type=dict))
    except msgspec.DecodeError as fault:
        raise Unavailable(f"the API server gave an answer that cannot be read: {fault}", reason="BadAnswer") from None
