"""What the embedded store promises beyond the contract of all stores."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.embedded.api import MODELS, Client

from modelwright.adapters.embedded.store import DATABASE, EmbeddedStore
from modelwright.api.meta import Metadata
from modelwright.api.model import Model, ModelSpec, ModelStatus
from modelwright.ports.errors import Expired, Invalid, Rejected, Unavailable
from modelwright.ports.store import Change

pytestmark = pytest.mark.anyio


def model(name: str, **metadata: object) -> Model:
    return Model(metadata=Metadata(name=name, namespace="default", **metadata))  # type: ignore[arg-type]


async def changes(store: EmbeddedStore, version: str) -> AsyncGenerator[Change[Model], None]:
    async for change in store.watch(Model, version):
        yield change


async def test_what_the_api_is_given_the_store_has(store: EmbeddedStore, api: Client) -> None:
    value = await api.make("m", labels={"a": "b"})
    read = await store.get(Model, "default", "m")
    assert read.metadata.uid == value["metadata"]["uid"]
    assert read.metadata.labels == {"a": "b"}
    await store.update_status(replace(read, status=ModelStatus(versions=2)))
    assert (await api.get(f"{MODELS}/m")).json["status"]["versions"] == 2


async def test_an_identity_that_a_resource_brings_along_is_not_taken(store: EmbeddedStore) -> None:
    first = await store.create(model("m"))
    copy = await store.create(replace(first, metadata=replace(first.metadata, name="n", resource_version="7")))
    assert copy.metadata.uid != first.metadata.uid


async def test_versions_resume_after_a_restart(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    before = (await store.list(Model)).version
    await store.create(model("a"))
    await store.close()
    store = await EmbeddedStore.open(tmp_path)
    async with aclosing(changes(store, before)) as watch:
        change = await anext(watch)
    assert (change.type, change.resource.metadata.name if change.resource else "") == ("ADDED", "a")
    await store.close()


@pytest.mark.parametrize("version", ["", "-1", "abc", "999999", "\u0661", "9" * 30])
async def test_what_was_never_a_version_is_expired(store: EmbeddedStore, version: str) -> None:
    async with aclosing(changes(store, version)) as watch:
        with pytest.raises(Expired):
            await anext(watch)


async def test_closing_ends_a_watch_that_waits(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)

    async def follow() -> None:
        async for _ in store.watch(Model, (await store.list(Model)).version):
            pass

    watching = asyncio.create_task(follow())
    await store.create(model("a"))
    await store.close()
    with pytest.raises(Unavailable, match="stopping"):
        await watching


async def test_one_object_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """A later version of a kind may be stricter than what an earlier one has stored."""
    store = await EmbeddedStore.open(tmp_path)
    before = (await store.list(Model)).version
    for name in ("a", "poison", "b"):
        await store.create(model(name))
    await store.close()
    connection = sqlite3.connect(tmp_path / DATABASE)
    for table in ("objects", "changes"):
        statement = f"UPDATE {table} SET value = replace(value, '\"spec\":{{}}', '\"spec\":7') WHERE name = 'poison'"
        assert connection.execute(statement).rowcount == 1
    connection.commit()
    connection.close()
    store = await EmbeddedStore.open(tmp_path)
    listing = await store.list(Model)
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert [(item.namespace, item.name, bool(item.uid)) for item in listing.unreadable] == [("default", "poison", True)]
    async with aclosing(changes(store, before)) as watch:
        seen = [await anext(watch), await anext(watch), await anext(watch)]
    assert [change.resource.metadata.name for change in seen if change.resource] == ["a", "b"]
    assert [change.unreadable.name for change in seen if change.unreadable] == ["poison"]
    with pytest.raises(Invalid, match="cannot be read"):
        await store.get(Model, "default", "poison")
    await store.close()


async def test_text_that_is_no_unicode_is_refused(store: EmbeddedStore) -> None:
    with pytest.raises(Invalid, match="no Unicode"):
        await store.create(replace(model("m"), spec=ModelSpec(description="\udcff")))


async def test_a_failed_start_lets_go_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"not a database " * 1000)
    with pytest.raises(Rejected, match="damaged"):
        await EmbeddedStore.open(tmp_path)
    (tmp_path / DATABASE).unlink()
    store = await EmbeddedStore.open(tmp_path)
    await store.close()
    await store.close()
