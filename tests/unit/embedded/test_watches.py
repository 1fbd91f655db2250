"""Watches of the API: order, selectors, bookmarks, resuming, ends."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.embedded.api import MODELS, VERSIONS, Client

from modelwright.adapters.embedded.store import EmbeddedStore

pytestmark = pytest.mark.anyio
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def version(api: Client) -> str:
    return str((await api.get(MODELS)).json["metadata"]["resourceVersion"])


async def label(api: Client, name: str, value: str | None) -> None:
    assert (await api.merge(f"{MODELS}/{name}", {"metadata": {"labels": {"stage": value}}})).status == 200


async def test_changes_after_a_version_come_in_order(api: Client) -> None:
    await api.make("before")
    since = await version(api)
    await api.make("a")
    async with api.watch(MODELS, resourceVersion=since) as watch:
        await label(api, "a", "beta")
        await api.ask("DELETE", f"{MODELS}/a")
        assert await watch.events(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("begin", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}])
async def test_without_a_version_what_exists_comes_first(api: Client, begin: dict[str, str]) -> None:
    await api.make("b")
    await api.make("a")
    async with api.watch(MODELS, None, **begin) as watch:
        await api.make("c")
        assert await watch.events(3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_other_resources_and_namespaces_are_not_seen(api: Client) -> None:
    await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "another"}})
    async with api.watch(MODELS) as watch:
        await api.make("z", MODELS.replace("default", "another"))
        await api.ask("POST", VERSIONS, {"metadata": {"name": "refused"}})
        await api.make("mine")
        assert await watch.events(1) == [("ADDED", "mine")]


async def test_what_begins_or_ceases_to_match_is_added_or_deleted(api: Client) -> None:
    await api.make("m", labels={"stage": "alpha"})
    async with api.watch(MODELS, labelSelector="stage=beta") as watch:
        await label(api, "m", "beta")
        await api.merge(f"{MODELS}/m", {"metadata": {"annotations": {"a": "b"}}})
        await label(api, "m", None)
        await api.merge(f"{MODELS}/m", {"metadata": {"annotations": {"c": "d"}}})
        await label(api, "m", "beta")
        await api.ask("DELETE", f"{MODELS}/m")
        events = [await watch.event() for _ in range(5)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[2]["object"]["metadata"]["labels"] == {"stage": "beta"}


async def test_one_name_can_be_watched(api: Client) -> None:
    async with api.watch(MODELS, fieldSelector="metadata.name=b") as watch:
        for name in "abc":
            await api.make(name)
        await api.ask("DELETE", f"{MODELS}/b")
        assert await watch.events(2) == [("ADDED", "b"), ("DELETED", "b")]


async def test_initial_events_end_with_a_bookmark_that_says_so(api: Client) -> None:
    await api.make("a")
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(MODELS, None, **options) as watch:
        assert await watch.events(1) == [("ADDED", "a")]
        bookmark = await watch.event()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["kind"] == "Model"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert bookmark["object"]["metadata"]["resourceVersion"] == await version(api)
        await api.make("b")
        assert await watch.events(1) == [("ADDED", "b")]


@pytest.mark.parametrize(
    "options",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "false"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
)
async def test_initial_events_that_are_asked_for_wrongly_are_refused(api: Client, options: dict[str, str]) -> None:
    answer = await api.get(MODELS, watch="true", **options)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert answer.json["details"]["causes"][0]["field"] == "resourceVersionMatch"


async def test_initial_events_of_the_future_are_refused(api: Client) -> None:
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "999"}
    answer = await api.get(MODELS, watch="true", **options)
    assert answer.status == 504
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_a_version_that_is_forgotten_ends_the_watch_with_410(api: Client) -> None:
    for number in range(100):
        await api.make(f"m-{number}")
    for wrong in ("1", "99999"):
        async with api.watch(MODELS, resourceVersion=wrong) as watch:
            event = await watch.event()
            assert event["type"] == "ERROR"
            assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
            await watch.end()


async def test_a_watch_ends_in_time_with_a_bookmark_to_resume_from(api: Client) -> None:
    await api.make("a")
    async with api.watch(VERSIONS, timeoutSeconds="1", allowWatchBookmarks="true") as watch:
        await api.make("b")
        bookmark = await watch.event()
        assert bookmark["type"] == "BOOKMARK"
        await watch.end()
    assert bookmark["object"]["metadata"]["resourceVersion"] == await version(api)
    assert bookmark["object"]["apiVersion"] == "model.kubedl.io/v1alpha1"


async def test_a_table_watch_sends_its_columns_once(api: Client) -> None:
    await api.make("a")
    async with api.watch(MODELS, TABLE) as watch:
        await api.make("b")
        first, second = await watch.event(), await watch.event()
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"]
    assert second["object"]["columnDefinitions"] == []
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


async def test_closing_the_store_ends_all_watches(api: Client, store: EmbeddedStore) -> None:
    async with api.watch(MODELS) as one, api.watch(VERSIONS) as other:
        await api.make("a")
        assert await one.events(1) == [("ADDED", "a")]
        await store.close()
        await one.end()
        await other.end()


async def test_a_watch_of_a_quiet_resource_survives_the_forgetting(api: Client) -> None:
    since = await version(api)
    async with api.watch("/api/v1/namespaces", resourceVersion=since) as watch:
        for number in range(100):
            await api.make(f"m-{number}")
        await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "news"}})
        assert await watch.events(1) == [("ADDED", "news")]


async def test_many_watchers_see_the_same(api: Client) -> None:
    async def follow() -> list[tuple[str, str]]:
        async with api.watch(MODELS) as watch:
            return await watch.events(30)

    watching = [asyncio.create_task(follow()) for _ in range(10)]
    for number in range(10):
        await api.make(f"m-{number}")
        await label(api, f"m-{number}", "beta")
        await api.ask("DELETE", f"{MODELS}/m-{number}")
    seen = await asyncio.gather(*watching)
    assert all(events[-1] == ("DELETED", "m-9") for events in seen)
    assert len(seen[0]) == 30
