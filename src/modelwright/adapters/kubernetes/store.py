"""The Store port on a Kubernetes API server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal, TypeVar, cast

import msgspec

from modelwright.adapters.kubernetes import codec
from modelwright.adapters.kubernetes.client import EVERYTHING, JSON, KubernetesClient
from modelwright.adapters.kubernetes.event_queue import EventQueue
from modelwright.adapters.kubernetes.events import EventRecorder
from modelwright.adapters.kubernetes.resource import Resource, of_kind
from modelwright.adapters.kubernetes.watch import Line, watch_once
from modelwright.api.kinds import kind_of
from modelwright.ports.errors import Invalid, Unavailable
from modelwright.ports.store import Change, Event, Listing, Unreadable

R = TypeVar("R")

WATCH_SECONDS = 280
PAUSE_SECONDS = 0.5
CHANGES = ("ADDED", "MODIFIED", "DELETED")


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Identity(msgspec.Struct, frozen=True):
    metadata: _Metadata


_IDENTITY = msgspec.json.Decoder(_Identity)


class KubernetesStore:
    """Resources as custom objects. `component` is the source that Events name; while `busy` they wait, and `run` writes
    them later."""

    def __init__(
        self,
        client: KubernetesClient,
        *,
        component: str = "modelwright",
        watch_seconds: int = WATCH_SECONDS,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._events = EventQueue(EventRecorder(client, component).record, busy)
        self._watch_seconds = watch_seconds

    async def get(self, type_: type[R], namespace: str, name: str) -> R:
        """The resource as it is now. Raises NotFound."""
        return codec.read(type_, await self._client.get_bytes(_resource(type_), namespace, name))

    async def list(self, type_: type[R]) -> Listing[R]:
        """All resources of a kind, in the server's order (by namespace and name)."""
        items, version = await self._client.list_bytes(_resource(type_))
        read = [_read(type_, item) for item in items]
        unreadable = tuple(item for item in read if isinstance(item, Unreadable))
        return Listing(tuple(item for item in read if not isinstance(item, Unreadable)), version, unreadable)

    async def watch(self, type_: type[R], version: str) -> AsyncGenerator[Change[R], None]:
        """Every change after `version`; goes on where the server ends a watch in good order."""
        resource, loop = _resource(type_), asyncio.get_running_loop()
        while True:
            began = loop.time()
            # Spread, so that many watches do not all begin anew in the same second.
            seconds = max(1, round(self._watch_seconds * random.uniform(0.9, 1.1)))  # noqa: S311 - no secret
            watching = watch_once(self._client, resource, version, EVERYTHING, seconds=seconds)
            async with aclosing(watching) as lines:
                async for line in lines:
                    version = _identity(line).resource_version or version
                    yield _change(type_, line, version)
            await asyncio.sleep(max(0.0, PAUSE_SECONDS - (loop.time() - began)))

    async def create(self, resource: R) -> R:
        """Raises AlreadyExists, Invalid, NotFound (its namespace)."""
        metadata = cast("Any", resource).metadata
        body = codec.to_create(resource)
        created = await self._client.create_bytes(_resource(type(resource)), metadata.namespace, body)
        return codec.read(type(resource), created)

    async def update_metadata(self, resource: R) -> R:
        """Write labels, annotations, owner references and finalizers. Raises Conflict, NotFound, Invalid."""
        return await self._patch(resource, codec.to_metadata_patch(resource))

    async def update_spec(self, resource: R) -> R:
        """Write the spec alone, as a whole. Raises Conflict, NotFound, Invalid."""
        return await self._patch(resource, codec.to_spec_patch(resource))

    async def update_status(self, resource: R) -> R:
        """Write the status alone, as a whole. Raises Conflict, NotFound, Invalid."""
        metadata = cast("Any", resource).metadata
        body = codec.to_status(resource)
        of = _resource(type(resource))
        answer = await self._client.replace(of, metadata.namespace, metadata.name, body, subresource="status")
        return codec.read(type(resource), answer)

    async def delete(self, resource: Any) -> None:
        """Delete this very resource (uid and, where set, resource version must match). Raises Conflict, NotFound."""
        metadata = resource.metadata
        await self._client.delete(
            _resource(type(resource)),
            metadata.namespace,
            metadata.name,
            uid=metadata.uid,
            version=metadata.resource_version,
        )

    async def record(self, event: Event) -> None:
        """Write a core/v1 Event, perhaps later; one with the same object, reason and message is counted up."""
        await self._events.record(event)

    async def run(self) -> None:
        """Write Events that had to wait, until cancelled."""
        await self._events.run()

    async def _patch(self, resource: R, patch: Sequence[JSON]) -> R:
        metadata, of = cast("Any", resource).metadata, _resource(type(resource))
        return codec.read(type(resource), await self._client.json_patch(of, metadata.namespace, metadata.name, patch))


def _change(type_: type[R], line: Line, version: str) -> Change[R]:
    if line.type == "BOOKMARK":
        return Change("BOOKMARK", None, version)
    if line.type not in CHANGES:
        raise Unavailable(f"watch: the server sent a change of type {line.type!r}", reason="BadAnswer")
    type_of_change = cast("Literal['ADDED', 'MODIFIED', 'DELETED']", line.type)
    read = _read(type_, line.object)
    if isinstance(read, Unreadable):
        return Change(type_of_change, None, version, read)
    return Change(type_of_change, read, version)


def _read(type_: type[R], data: msgspec.Raw) -> R | Unreadable:
    """One object that cannot be read must not keep all others from being seen."""
    try:
        return codec.read(type_, data)
    except Invalid as fault:
        metadata = _IDENTITY.decode(data).metadata
        return Unreadable(metadata.namespace, metadata.name, metadata.uid, fault.message)


def _resource(type_: type[Any]) -> Resource:
    return of_kind(kind_of(type_))


def _identity(line: Line) -> _Metadata:
    try:
        return _IDENTITY.decode(line.object).metadata
    except msgspec.DecodeError as fault:
        raise Unavailable(f"watch: the server sent an object without metadata: {fault}", reason="BadAnswer") from None
