"""What the cache believes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from modelwright.api.meta import Metadata
from modelwright.api.model import Model
from modelwright.engine.cache import Cache
from modelwright.ports.errors import Expired
from modelwright.ports.store import Change, Event, Listing, Unreadable

pytestmark = pytest.mark.anyio


def model(name: str, version: int, uid: str = "uid") -> Model:
    return Model(metadata=Metadata(name=name, namespace="default", uid=uid, resource_version=str(version)))


class Script:
    """A store that lists and watches what a test has written down, in turn."""

    def __init__(self, *listings: Listing[Model], watches: list[list[Change[Model] | Expired]]) -> None:
        self._listings = iter(listings)
        self._watches = iter(watches)
        self.done = asyncio.Event()
        self.events: list[Event] = []

    async def record(self, event: Event) -> None:
        self.events.append(event)

    async def list(self, type_: type) -> Any:
        return next(self._listings)

    async def watch(self, type_: type, version: str) -> AsyncIterator[Any]:
        for change in next(self._watches, []):
            if isinstance(change, Expired):
                raise change
            yield change
        self.done.set()
        await asyncio.Event().wait()


async def names_after(script: Script) -> list[tuple[str, str]]:
    cache: Cache[Model] = Cache(script, Model)  # type: ignore[arg-type]
    task = asyncio.create_task(cache.run())
    await asyncio.wait_for(script.done.wait(), 20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return sorted((found.metadata.name, found.metadata.resource_version) for found in cache.all())


def change(type_: Any, resource: Model) -> Change[Model]:
    return Change(type_, resource, resource.metadata.resource_version)


async def test_it_follows_the_watch_from_the_listing_on() -> None:
    changes: list[Any] = [
        change("ADDED", model("b", 3)),
        change("MODIFIED", model("a", 4)),
        change("DELETED", model("b", 5)),
    ]
    script = Script(Listing((model("a", 1),), "2"), watches=[changes])
    assert await names_after(script) == [("a", "4")]


async def test_what_is_missing_from_a_new_listing_is_gone() -> None:
    script = Script(
        Listing((model("a", 1), model("b", 2)), "2"),
        Listing((model("b", 2),), "9"),
        watches=[[Expired("compacted")], []],
    )
    assert await names_after(script) == [("b", "2")]


async def test_an_event_that_is_repeated_does_not_take_it_back() -> None:
    changes: list[Any] = [change("MODIFIED", model("a", 7)), change("ADDED", model("a", 1))]
    script = Script(Listing((model("a", 1),), "2"), watches=[changes])
    assert await names_after(script) == [("a", "7")]


def filled(*resources: Model) -> Cache[Model]:
    cache: Cache[Model] = Cache(Script(watches=[]), Model, {"uid": lambda found: [("", found.metadata.uid)]})  # type: ignore[arg-type]
    for resource in resources:
        cache.put(resource)
    return cache


async def test_what_we_wrote_is_there_at_once() -> None:
    cache = filled(model("a", 1))
    cache.wrote(model("a", 2))
    found = cache.get("default", "a")
    assert found is not None
    assert found.metadata.resource_version == "2"


async def test_what_we_wrote_does_not_come_back_when_the_watch_has_seen_its_end() -> None:
    cache = filled(model("a", 1))
    cache._absorb(change("DELETED", model("a", 5)))
    cache.wrote(model("a", 4))
    assert cache.get("default", "a") is None


async def test_the_end_of_a_former_object_does_not_hide_its_successor() -> None:
    cache = filled(model("a", 9, uid="second"))
    cache.drop(model("a", 3, uid="first"))
    assert cache.get("default", "a") is not None


async def test_an_index_follows_every_change() -> None:
    cache = filled(model("a", 1, uid="x"), model("b", 2, uid="x"))
    assert [found.metadata.name for found in cache.by("uid", ("", "x"))] == ["a", "b"]
    cache.put(model("a", 3, uid="y"))
    cache.drop(model("b", 4, uid="x"))
    assert cache.by("uid", ("", "x")) == []
    assert [found.metadata.name for found in cache.by("uid", ("", "y"))] == ["a"]


async def test_listeners_hear_what_was_and_what_is() -> None:
    heard: list[tuple[Any, Any]] = []
    cache = filled()
    cache.listen(lambda before, after: heard.append((before, after)))
    first, second = model("a", 1), model("a", 2)
    cache.put(first)
    cache.put(second)
    cache.drop(msgspec.structs.replace(second))
    assert heard == [(None, first), (first, second), (second, None)]


async def test_what_we_wrote_after_a_listing_was_made_is_not_gone_with_it() -> None:
    """The listing comes late: it does not know yet what we have created meanwhile."""
    cache: Cache[Model]
    gone: list[str] = []

    class Late(Script):
        async def list(self, type_: type) -> Any:
            found = await super().list(type_)
            cache.wrote(model("ours", int(found.version) + 1))
            return found

    script = Late(Listing((), "2"), Listing((), "9"), watches=[[Expired("compacted")], []])
    cache = Cache(script, Model)  # type: ignore[arg-type]
    cache.listen(lambda before, after: gone.append(before.metadata.name) if after is None else None)
    task = asyncio.create_task(cache.run())
    await asyncio.wait_for(script.done.wait(), 20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [found.metadata.name for found in cache.all()] == ["ours"]
    assert gone == []


UNREADABLE = Unreadable("default", "bad", "uid-bad", "spec is no object")


async def unreadable_after(script: Script) -> tuple[set[str], list[str]]:
    cache: Cache[Model] = Cache(script, Model)  # type: ignore[arg-type]
    task = asyncio.create_task(cache.run())
    await asyncio.wait_for(script.done.wait(), 20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return cache.unreadable, [found.metadata.name for found in cache.all()]


async def test_what_cannot_be_read_is_there_all_the_same_and_an_event_says_so() -> None:
    script = Script(Listing((model("good", 1),), "2", (UNREADABLE,)), watches=[[]])
    assert await unreadable_after(script) == ({"uid-bad"}, ["good"])
    assert [(event.name, event.type, event.reason) for event in script.events] == [("bad", "Warning", "NotReadable")]


async def test_what_becomes_unreadable_is_no_longer_acted_upon() -> None:
    changes: list[Any] = [Change("MODIFIED", None, "3", UNREADABLE)]
    script = Script(Listing((model("bad", 1, uid="uid-bad"),), "2"), watches=[changes])
    assert await unreadable_after(script) == ({"uid-bad"}, [])


async def test_what_is_mended_is_read_again_and_what_is_deleted_is_gone() -> None:
    mended: list[Any] = [change("MODIFIED", model("bad", 3, uid="uid-bad"))]
    script = Script(Listing((), "2", (UNREADABLE,)), watches=[mended])
    assert await unreadable_after(script) == (set(), ["bad"])
    deleted: list[Any] = [Change("DELETED", None, "3", UNREADABLE)]
    script = Script(Listing((), "2", (UNREADABLE,)), watches=[deleted])
    assert await unreadable_after(script) == (set(), [])
