"""Watches: every change after a version, in order, one JSON document per line."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from modelwright.adapters.embedded.apiserver import rendering
from modelwright.adapters.embedded.apiserver.asgi import JSON, Request, Send
from modelwright.adapters.embedded.apiserver.lists import not_newer, selector_of
from modelwright.adapters.embedded.apiserver.negotiation import Format, format_of
from modelwright.adapters.embedded.apiserver.status import failure
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.history import Change, Entry
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.refusals import invalid_options
from modelwright.adapters.embedded.selectors import Selector
from modelwright.ports.errors import Expired, Unavailable

BOOKMARK_SECONDS = 60.0
LONGEST_SECONDS = 3600.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Options(msgspec.Struct, frozen=True):
    """What a watch asks for. `version` None or 0: everything that exists now, then the changes."""

    version: int | None
    bookmarks: bool
    initial_events: bool
    seconds: float
    format_: Format


def options_of(objects: Objects, request: Request) -> Options:
    """The options of a watch. Raises BadRequest, Invalid, TooNew."""
    query = request.query
    version, match = request.number("resourceVersion"), request.query.get("resourceVersionMatch", "")
    initial = request.flag("sendInitialEvents")
    _check_match(match, asked="sendInitialEvents" in query)
    if initial:
        not_newer(objects, version or 0)
    seconds = request.number("timeoutSeconds")
    # Clients that name no time are let go at different times.
    longest = LONGEST_SECONDS * random.uniform(0.5, 1)  # noqa: S311
    bookmarks = request.flag("allowWatchBookmarks")
    return Options(version, bookmarks, initial, float(seconds) if seconds else longest, format_of(request))


def _check_match(match: str, *, asked: bool) -> None:
    if asked and match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and not asked:
        text = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    else:
        return
    raise invalid_options("resourceVersionMatch", "FieldValueForbidden", text)


class Watch:
    """One watch of one client, as a response."""

    def __init__(self, objects: Objects, definition: Definition, namespace: str, request: Request) -> None:
        self._objects = objects
        self._definition = definition
        self._namespace = namespace
        self._request = request
        self._options = options_of(objects, request)
        self._selector: Selector = selector_of(definition, request)
        self._seen = 0
        self._marked = 0
        self._columns_sent = False

    async def __call__(self, send: Send) -> None:
        # Made before the headers go out: whoever has seen them misses nothing that happens from then on.
        lines, ended = self._begin()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON)]})
        await self._write(send, lines)
        if not ended:
            await self._until_gone(send)
        await send({"type": "http.response.body", "body": b""})

    def _begin(self) -> tuple[bytes, bool]:
        try:
            return b"".join(self._first()), False
        except Expired as error:
            return self._line("ERROR", failure(error)), True

    async def _until_gone(self, send: Send) -> None:
        """Stream until the time is up, the store is closed, or the client has hung up."""
        gone = asyncio.create_task(self._disconnected(), name="watch-disconnect")
        streaming = asyncio.create_task(self._stream(send), name="watch-stream")
        try:
            await asyncio.wait((gone, streaming), return_when=asyncio.FIRST_COMPLETED)
            if streaming.done():
                await streaming
        finally:
            gone.cancel()
            streaming.cancel()
            await asyncio.gather(gone, streaming, return_exceptions=True)

    async def _disconnected(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    async def _stream(self, send: Send) -> None:
        now = time.monotonic()
        deadline, due = now + self._options.seconds, now + BOOKMARK_SECONDS
        try:
            while (now := time.monotonic()) < deadline:
                until = max(min(deadline, due) - now, 0)
                await self._objects.history.wait_after(self._seen, self._definition.resource, until)
                await self._write(send, b"".join(self._changes()))
                if time.monotonic() >= due:
                    due += BOOKMARK_SECONDS
                    await self._write(send, b"".join(self._progress()))
            await self._write(send, b"".join(self._progress()))
        except Expired as error:
            await self._write(send, self._line("ERROR", failure(error)))
        except Unavailable:
            return

    async def _write(self, send: Send, body: bytes) -> None:
        if body:
            await send({"type": "http.response.body", "body": body, "more_body": True})

    def _first(self) -> Iterator[bytes]:
        """What is sent at once: the objects that exist, if the client begins with nothing."""
        version = self._options.version
        if version and not self._options.initial_events:
            self._seen = version
            yield from self._changes()
            return
        self._seen = self._objects.version
        for entry in self._objects.snapshot(self._definition.resource, self._namespace):
            if self._selector.matches(entry):
                yield self._event("ADDED", entry)
        if self._options.initial_events and self._options.bookmarks:
            yield self._bookmark({INITIAL_EVENTS_END: "true"})

    def _changes(self) -> Iterator[bytes]:
        newest = self._objects.version
        for change in self._objects.history.since(self._seen, self._definition.resource):
            if not self._namespace or change.key[1] == self._namespace:
                event = transition(change, self._selector)
                if event is not None:
                    yield self._event(*event)
        self._seen = newest

    def _progress(self) -> Iterator[bytes]:
        """A bookmark, if there was any change since the last one: the client may resume from there."""
        if self._options.bookmarks and self._marked < self._seen:
            yield self._bookmark({})

    def _event(self, type_: str, entry: Entry) -> bytes:
        if self._options.format_ == "Table":
            table = rendering.table(self._definition, [entry], columns=not self._columns_sent)
            self._columns_sent = True
            return self._line(type_, table)
        body = rendering.one(self._definition, self._options.format_, entry)
        return b'{"type":"%s","object":%s}\n' % (type_.encode(), body)

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        self._marked = self._seen
        metadata: dict[str, Any] = {"resourceVersion": str(self._seen), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        if self._options.format_ == "Table":
            table = rendering.table(self._definition, [], columns=not self._columns_sent)
            self._columns_sent = True
            return self._line("BOOKMARK", {**table, "metadata": metadata})
        kind, version = self._definition.kind, self._definition.api_version
        if self._options.format_ == "PartialObjectMetadata":
            kind, version = "PartialObjectMetadata", rendering.META
        return self._line("BOOKMARK", {"kind": kind, "apiVersion": version, "metadata": metadata})

    def _line(self, type_: str, value: dict[str, Any]) -> bytes:
        return msgspec.json.encode({"type": type_, "object": value}) + b"\n"


def transition(change: Change, selector: Selector) -> tuple[Literal["ADDED", "MODIFIED", "DELETED"], Entry] | None:
    """A change as a selector sees it: an object that begins or ceases to match is added or deleted."""
    if not selector:
        return change.type, change.entry
    was = change.previous is not None and selector.matches(change.previous)
    is_ = change.type != "DELETED" and selector.matches(change.entry)
    if is_:
        return ("MODIFIED" if was else "ADDED"), change.entry
    if was and change.previous is not None:
        return "DELETED", _as_of(change.previous, change.version)
    return None


def _as_of(entry: Entry, version: int) -> Entry:
    """The object as it last matched, under the version at which it ceased to."""
    value = msgspec.json.decode(entry.value)
    value["metadata"]["resourceVersion"] = str(version)
    return Entry(msgspec.json.encode(value), version, entry.uid, entry.owners)
