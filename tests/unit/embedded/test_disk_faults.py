"""Every statement fails once, every log is torn: what was acknowledged stays, what is read is a prefix of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.embedded.test_objects import put, remove

from modelwright.adapters.embedded import database
from modelwright.adapters.embedded.database import Connect
from modelwright.adapters.embedded.objects import Objects
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.errors import Unavailable

pytestmark = pytest.mark.anyio
Change = Callable[[Transaction], int]
State = dict[str, int]

# (what it does, the state that it leads to: version by name)
WORKLOAD: list[tuple[Change, State]] = [
    (put("a"), {"a": 1}),
    (put("b"), {"a": 1, "b": 2}),
    (put("a", colour="red"), {"a": 3, "b": 2}),
    (remove("b"), {"a": 3}),
    (put("c", note="x" * 9000), {"a": 3, "c": 5}),
    (put("b"), {"a": 3, "c": 5, "b": 6}),
    (remove("a"), {"c": 5, "b": 6}),
]


def state(objects: Objects) -> State:
    return {decode(entry)["metadata"]["name"]: entry.version for entry in objects.snapshot("models")}


class FailingOnce(sqlite3.Connection):
    """Raises instead of the statement whose turn it is."""

    turns: int

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.turns -= 1
        if self.turns == 0:
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *parameters)

    def executemany(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self.turns -= 1
        if self.turns == 0:
            raise sqlite3.OperationalError("disk I/O error")
        return super().executemany(sql, *parameters)


def failing_at(turn: int, made: list[FailingOnce]) -> Connect:
    def connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=FailingOnce)
        connection.turns = turn
        made.append(connection)
        return connection

    return connect


async def run(path: Path, connect: Connect) -> int:
    """Do the work, each step again where it is refused; how often that was."""
    refused = 0
    try:
        objects = Objects.open(path, connect=connect)
    except Unavailable:
        objects, refused = Objects.open(path), 1
    for change, after in WORKLOAD:
        before = state(objects)
        try:
            await objects.write(change)
        except Unavailable as error:
            assert error.reason == "StorageFailed"
            assert state(objects) == before
            refused += 1
            await objects.write(change)
        assert state(objects) == after
    await objects.close()
    return refused


async def test_whichever_statement_fails_nothing_is_lost_and_the_next_try_works(tmp_path: Path) -> None:
    for turn in range(1, 1000):
        path = tmp_path / f"{turn}.db"
        made: list[FailingOnce] = []
        refused = await run(path, failing_at(turn, made))
        objects = Objects.open(path)
        assert state(objects) == WORKLOAD[-1][1]
        assert objects.version == len(WORKLOAD)
        await objects.close()
        if made[0].turns > 0:
            # The work has fewer statements than that: every one of them has failed once.
            assert refused == 0
            return
        assert refused == 1
    raise AssertionError("the work never ends")


async def test_a_log_that_is_torn_anywhere_gives_a_prefix_of_what_was_written(tmp_path: Path) -> None:
    path, wal = tmp_path / "state.db", tmp_path / "state.db-wal"
    objects = Objects.open(path, connect=without_checkpoints)
    for change, _ in WORKLOAD:
        await objects.write(change)
    whole = wal.read_bytes()
    seen = set()
    for length in sorted({*range(0, len(whole), 1031), len(whole)}):
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copy(path, copy / "state.db")
        (copy / "state.db-wal").write_bytes(whole[:length])
        torn = Objects.open(copy / "state.db")
        assert state(torn) == (WORKLOAD[torn.version - 1][1] if torn.version else {})
        seen.add(torn.version)
        await torn.close()
        shutil.rmtree(copy)
    assert seen == set(range(len(WORKLOAD) + 1))
    await objects.close()


def without_checkpoints(path: Path) -> sqlite3.Connection:
    connection = database.connect(path)
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection
