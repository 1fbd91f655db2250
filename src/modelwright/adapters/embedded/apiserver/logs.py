"""What an object's workloads have printed: `GET …/namespaces/NS/PLURAL/NAME/log[?follow=true]`, as plain text.

Kubernetes has this for Pods alone; here the object itself stands for what runs on its behalf. Who follows is told of
every workload from its beginning to its end, those that are started meanwhile too, until the object is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import msgspec

from modelwright.adapters.embedded.apiserver.asgi import App, Receive, Request, Scope, Send
from modelwright.adapters.embedded.apiserver.merging import merged
from modelwright.adapters.embedded.apiserver.status import refuse
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.resources import Resources
from modelwright.ports.errors import ModelwrightError, NotFound
from modelwright.ports.workloads import TaskStatus, Workloads, WorkloadStatus

TEXT = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
_POLL_SECONDS = 0.25
_LAST = datetime.max.replace(tzinfo=UTC)


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Object(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Object)


def is_done(value: bytes) -> bool:
    """Whether, as far as an object's conditions say, nothing more is going to be started for it by itself."""
    found = {condition.type: condition.status for condition in _decoder.decode(value).status.conditions}
    ended = found["Succeeded"] != "Unknown" if "Succeeded" in found else found.get("Ready") == "True"
    return ended or found.get("Stalled") == "True"


def in_order(statuses: Sequence[WorkloadStatus]) -> list[WorkloadStatus]:
    """What was started first comes first."""
    return sorted(statuses, key=lambda status: (_started(status), status.name))


def _started(status: WorkloadStatus) -> datetime:
    if not isinstance(status, TaskStatus):
        return _LAST
    return status.started_at or status.finished_at or _LAST


class _Target(msgspec.Struct, frozen=True):
    """The object whose logs are asked for."""

    definition: Definition
    namespace: str
    name: str
    uid: str


class Logs:
    """ASGI middleware: answers requests for logs, passes everything else on."""

    def __init__(self, app: App, resources: Resources, workloads: Workloads) -> None:
        self._app = app
        self._resources = resources
        self._workloads = workloads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        segments = scope["path"].strip("/").split("/") if scope["type"] == "http" else []
        if len(segments) != 8 or segments[0] != "apis" or segments[3] != "namespaces" or segments[7] != "log":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        follow = request.flag("follow")
        try:
            target = self._find(segments)
            await self._check(target, follow=follow)
        except ModelwrightError as error:
            await refuse(error)(send)
            return
        await self._answer(request, send, target, follow=follow)

    def _find(self, segments: list[str]) -> _Target:
        """Raises NotFound."""
        _, group, version, _, namespace, plural, name, _ = segments
        definition = self._resources.definitions.by_plural(group, version, plural)
        if definition is None:
            raise NotFound("the server could not find the requested resource")
        return _Target(definition, namespace, name, self._resources.get(definition, namespace, name).uid)

    async def _check(self, target: _Target, *, follow: bool) -> None:
        """Raises NotFound if nothing runs for it, and nothing is expected to."""
        done = self._is_done(target)
        if not await self._workloads.observe(target.uid) and (done or not follow):
            raise NotFound(
                f"nothing runs for {target.definition.singular} {target.name}: there is no log; "
                "see its conditions and Events"
            )

    def _is_done(self, target: _Target) -> bool:
        try:
            entry = self._resources.get(target.definition, target.namespace, target.name)
        except NotFound:
            return True
        return entry.uid != target.uid or is_done(entry.value)

    async def _answer(self, request: Request, send: Send, target: _Target, *, follow: bool) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": TEXT})
        writing = asyncio.create_task(self._write(send, target, follow=follow))
        gone = asyncio.create_task(_disconnected(request))
        try:
            await asyncio.wait((gone, writing), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await writing
                await send({"type": "http.response.body", "body": b""})
        finally:
            for task in (gone, writing):
                task.cancel()
            await asyncio.gather(gone, writing, return_exceptions=True)

    async def _write(self, send: Send, target: _Target, *, follow: bool) -> None:
        written: set[str] = set()
        while True:
            done = self._is_done(target)  # before looking: what is started later makes it undone first
            fresh = [each for each in await self._workloads.observe(target.uid) if each.name not in written]
            if not fresh and (done or not follow):
                return
            async for chunk in self._chunks(target.uid, in_order(fresh), follow=follow):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            written.update(each.name for each in fresh)
            if not fresh:
                await asyncio.sleep(_POLL_SECONDS)

    async def _chunks(self, uid: str, statuses: Sequence[WorkloadStatus], *, follow: bool) -> AsyncIterator[bytes]:
        """What has ended first, then what runs: all at once where it is followed."""
        running = [each.name for each in statuses if not _has_ended(each)]
        one_by_one = [each.name for each in statuses if _has_ended(each)] + ([] if follow else running)
        for name in one_by_one:
            async for chunk in self._log(uid, name, follow=follow):
                yield chunk
        if follow:
            async for chunk in merged([self._log(uid, name, follow=True) for name in running]):
                yield chunk

    async def _log(self, uid: str, name: str, *, follow: bool) -> AsyncIterator[bytes]:
        with contextlib.suppress(NotFound):  # ended and let go meanwhile
            async for chunk in self._workloads.logs(uid, name, follow=follow):
                yield chunk


def _has_ended(status: WorkloadStatus) -> bool:
    return isinstance(status, TaskStatus) and status.phase in ("Succeeded", "Failed")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
