from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelwright.adapters.embedded import database
from modelwright.adapters.embedded.history import Key
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.errors import AlreadyExists, Expired, Rejected, Unavailable

pytestmark = pytest.mark.anyio


def key(name: str, resource: str = "models", namespace: str = "default") -> Key:
    return (resource, namespace, name)


def put(name: str, resource: str = "models", **fields: Any) -> Callable[[Transaction], int]:
    """A change that writes an object and gives its version."""

    def change(transaction: Transaction) -> int:
        value = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{resource}-{name}"}, **fields}
        return transaction.put(key(name, resource), value).version

    return change


def remove(name: str) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.remove(key(name)).version


def names(objects: Objects, at: int | None = None) -> list[str]:
    return [decode(entry)["metadata"]["name"] for entry in objects.snapshot("models", at=at)]


class Gate:
    """Lets a test hold a commit, or make it fail as a disk does, by way of the connection."""

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None

    def connect(self, path: Path) -> sqlite3.Connection:
        self.connection = database.connect(path)
        return self.connection

    def fill(self) -> None:
        self._limit("(SELECT 1)")

    def free(self) -> None:
        self._limit("4294967294")

    def _limit(self, pages: str) -> None:
        assert self.connection is not None
        (now,) = self.connection.execute("PRAGMA page_count").fetchone()
        self.connection.execute(f"PRAGMA max_page_count = {now if '(' in pages else pages}")


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
async def objects(tmp_path: Path, gate: Gate) -> AsyncIterator[Objects]:
    opened = Objects.open(tmp_path / "state.db", keep=20, connect=gate.connect)
    yield opened
    await opened.close()


async def test_what_was_written_is_read_with_its_version(objects: Objects) -> None:
    version = await objects.write(put("a", colour="red"))
    entry = objects.get(key("a"))
    assert entry is not None
    assert entry.version == version == objects.version
    assert decode(entry)["metadata"]["resourceVersion"] == str(version)
    assert decode(entry)["colour"] == "red"


async def test_nothing_is_read_before_it_is_durable(objects: Objects, gate: Gate) -> None:
    committing, go_on = threading.Event(), threading.Event()

    def hold(statement: str) -> None:
        if statement == "COMMIT":
            committing.set()
            assert go_on.wait(30)

    assert gate.connection is not None
    gate.connection.set_trace_callback(hold)
    writing = asyncio.create_task(objects.write(put("a")))
    assert await asyncio.to_thread(committing.wait, 30)
    assert objects.get(key("a")) is None
    assert objects.snapshot("models") == []
    assert objects.version == 0
    assert not writing.done()
    go_on.set()
    await writing
    gate.connection.set_trace_callback(None)
    assert objects.get(key("a")) is not None


async def test_writes_that_wait_together_are_one_commit_and_follow_each_other(objects: Objects, gate: Gate) -> None:
    assert gate.connection is not None
    statements: list[str] = []
    gate.connection.set_trace_callback(statements.append)
    versions = await asyncio.gather(*(objects.write(put(f"m-{number}")) for number in range(100)))
    gate.connection.set_trace_callback(None)
    assert versions == list(range(1, 101))
    assert statements.count("COMMIT") == 1


async def test_a_later_write_of_a_batch_sees_the_earlier_ones(objects: Objects) -> None:
    def seen(transaction: Transaction) -> bool:
        return transaction.get(key("a")) is not None

    first, was_seen, last = await asyncio.gather(
        objects.write(put("a")), objects.write(seen), objects.write(remove("a"))
    )
    assert (first, was_seen, last) == (1, True, 2)
    assert [change.type for change in objects.history.since(0, "models")] == ["ADDED", "DELETED"]


async def test_a_change_that_fails_takes_back_only_its_own(objects: Objects) -> None:
    def spoiled(transaction: Transaction) -> None:
        put("spoiled")(transaction)
        put("a", colour="spoiled")(transaction)
        raise AlreadyExists("as planned")

    results = await asyncio.gather(
        objects.write(put("a")), objects.write(spoiled), objects.write(put("b")), return_exceptions=True
    )
    assert isinstance(results[1], AlreadyExists)
    assert (results[0], results[2]) == (1, 2)
    assert names(objects) == ["a", "b"]


async def test_a_dry_run_gives_its_result_and_leaves_nothing(objects: Objects) -> None:
    assert await objects.write(put("a"), dry_run=True) == 1
    assert names(objects) == []
    assert await objects.write(put("b")) == 1


async def test_a_full_disk_fails_every_write_of_the_batch_and_changes_nothing(objects: Objects, gate: Gate) -> None:
    await objects.write(put("before"))
    gate.fill()
    big = "x" * 50_000
    results = await asyncio.gather(
        objects.write(put("a", note=big)),
        objects.write(lambda transaction: transaction.get(key("a")) is not None),
        objects.write(put("b")),
        return_exceptions=True,
    )
    assert all(isinstance(result, Unavailable) and result.reason == "StorageFull" for result in results)
    assert names(objects) == ["before"]
    assert objects.version == 1
    gate.free()
    assert await objects.write(put("after")) == 2
    assert names(objects) == ["after", "before"]


async def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    objects = Objects.open(path, keep=20)
    for change in (put("a"), put("b"), put("a", colour="red"), remove("b")):
        await objects.write(change)
    before = [(change.type, change.key, change.version) for change in objects.history.since(0, "models")]
    await objects.close()
    objects = Objects.open(path, keep=20)
    assert objects.version == 4
    assert names(objects) == ["a"]
    after = objects.history.since(0, "models")
    assert [(change.type, change.key, change.version) for change in after] == before
    assert [change.previous.version if change.previous else 0 for change in after] == [0, 0, 1, 2]
    assert await objects.write(put("c")) == 5
    await objects.close()


async def test_the_version_does_not_go_back_when_everything_is_deleted(tmp_path: Path) -> None:
    objects = Objects.open(tmp_path / "state.db", keep=1)
    for number in range(10):
        await objects.write(put(f"m-{number}"))
        await objects.write(remove(f"m-{number}"))
    await objects.close()
    objects = Objects.open(tmp_path / "state.db", keep=1)
    assert objects.version == 20
    await objects.close()


async def test_old_changes_are_forgotten_and_asking_for_them_is_expired(objects: Objects) -> None:
    for number in range(100):
        await objects.write(put(f"m-{number}"))
    kept = objects.version - objects.history.compacted
    assert 20 <= kept <= 25
    with pytest.raises(Expired, match="List again"):
        objects.history.since(objects.history.compacted - 1, "models")
    assert len(objects.history.since(objects.history.compacted, "models")) == kept
    with pytest.raises(Expired):
        objects.history.since(objects.version + 1, "models")


async def test_a_write_of_more_changes_than_are_kept_is_whole_and_sends_watchers_to_the_list(tmp_path: Path) -> None:
    objects = Objects.open(tmp_path / "state.db", keep=20)
    await objects.write(put("before"))

    def many(transaction: Transaction) -> None:
        for number in range(100):
            put(f"m-{number:03}")(transaction)

    await objects.write(many)
    assert len(names(objects)) == 101
    with pytest.raises(Expired):
        objects.history.since(1, "models")
    assert len(objects.history.since(objects.history.compacted, "models")) == 20
    await objects.close()
    objects = Objects.open(tmp_path / "state.db", keep=20)
    assert (objects.version, len(names(objects))) == (101, 101)
    await objects.close()


async def test_a_quiet_resource_can_be_resumed_from_long_ago(objects: Objects) -> None:
    await objects.write(put("quiet", "others"))
    for number in range(100):
        await objects.write(put(f"m-{number}"))
    assert objects.history.since(1, "others") == []
    await objects.write(put("news", "others"))
    assert [change.key for change in objects.history.since(1, "others")] == [key("news", "others")]
    with pytest.raises(Expired):
        objects.history.since(0, "others")


async def test_the_past_can_be_listed_while_its_changes_are_kept(objects: Objects) -> None:
    for change in (put("a"), put("b"), put("a", colour="red"), remove("b"), put("c")):
        await objects.write(change)
    assert [names(objects, at) for at in range(1, 6)] == [["a"], ["a", "b"], ["a", "b"], ["a"], ["a", "c"]]
    (entry,) = objects.snapshot("models", at=1)
    assert "colour" not in decode(entry)


async def test_a_waiting_watcher_wakes_for_its_resource_only(objects: Objects) -> None:
    waiting = asyncio.create_task(objects.history.wait_after(0, "models", 30))
    await objects.write(put("x", "others"))
    assert not waiting.done()
    await objects.write(put("a"))
    assert await waiting
    assert await objects.history.wait_after(0, "models", 30)
    assert not await objects.history.wait_after(objects.version, "models", 0)


async def test_closing_ends_the_waiting_and_refuses_writes(tmp_path: Path) -> None:
    objects = Objects.open(tmp_path / "state.db")
    waiting = asyncio.create_task(objects.history.wait_after(0, "models", 30))
    writing = asyncio.create_task(objects.write(put("a")))
    await asyncio.sleep(0)
    await objects.close()
    assert await writing == 1
    await waiting
    with pytest.raises(Unavailable):
        await objects.history.wait_after(0, "models", 30)
    with pytest.raises(Unavailable):
        await objects.write(put("b"))


async def test_a_row_that_is_no_object_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    objects = Objects.open(path)
    await objects.write(put("a"))
    await objects.close()
    connection = sqlite3.connect(path)
    for value in (b"{", b"[]", b"{}", msgspec.json.encode({"metadata": {"uid": 7}})):
        connection.execute("UPDATE objects SET value = ?", (value,))
        connection.commit()
        with pytest.raises(Rejected, match=r"damaged.*models default/a") as caught:
            Objects.open(path)
        assert caught.value.reason == "DatabaseCorrupt"
    connection.close()


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM changes WHERE version = 2", "DELETE FROM changes", "UPDATE objects SET version = 9 WHERE name = 'a'"],
)
async def test_a_history_that_does_not_fit_is_damage(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "state.db"
    objects = Objects.open(path)
    for name in ("a", "b", "c"):
        await objects.write(put(name))
    await objects.close()
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(Rejected) as caught:
        Objects.open(path)
    assert caught.value.reason == "DatabaseCorrupt"
