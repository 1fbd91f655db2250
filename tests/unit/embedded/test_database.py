from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from modelwright.adapters.embedded.database import SCHEMA_VERSION, ChangeRow, Database, connect
from modelwright.ports.errors import ModelwrightError, Rejected, Unavailable


def change(version: int, name: str = "a", type_: str = "ADDED", value: bytes = b"{}") -> ChangeRow:
    return ChangeRow(version, type_, "models", "default", name, value, 0, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def opening_fails(path: Path, type_: type[ModelwrightError], reason: str, match: str) -> None:
    with pytest.raises(type_, match=match) as caught:
        Database.open(path)
    assert caught.value.reason == reason


def test_a_commit_is_there_after_reopening(path: Path) -> None:
    database = Database.open(path)
    database.commit([change(1, value=b"one"), change(2, "b", value=b"two")], 0)
    database.commit([change(3, "b", "DELETED", b"two")], 1)
    database.close()
    database = Database.open(path)
    assert [(row.name, row.value) for row in database.objects()] == [("a", b"one")]
    assert [row.version for row in database.changes()] == [2, 3]
    database.close()


def test_the_file_is_private_and_synced_at_every_commit(path: Path) -> None:
    database = Database.open(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert database._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert database._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_a_database_of_a_newer_program_is_left_alone(path: Path) -> None:
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    opening_fails(path, Rejected, "DatabaseTooNew", "newer Modelwright.*--data-dir")
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    opening_fails(path, Rejected, "DatabaseForeign", "another program")
    assert path.read_bytes() == before


def test_what_is_no_database_is_damaged(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)
    opening_fails(path, Rejected, "DatabaseCorrupt", "damaged.*backup.*--data-dir")


def test_damage_anywhere_is_found_or_harmless(path: Path) -> None:
    """Every page but the first overwritten in turn: either the damage is found, or everything can still be read."""
    database = Database.open(path)
    for version in range(1, 200):
        database.commit([change(version, f"name-{version}", value=b'"%s"' % (b"x" * 300))], 0)
    database.close()
    whole = path.read_bytes()
    found = 0
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
        try:
            database = Database.open(path)
        except Rejected as error:
            assert error.reason == "DatabaseCorrupt"
            found += 1
            continue
        assert len(list(database.objects())) == 199
        database.close()
    assert found > len(whole) // 4096 // 2


def test_a_truncated_database_is_damaged(path: Path) -> None:
    database = Database.open(path)
    database.commit([change(version, f"name-{version}", value=b"x" * 500) for version in range(1, 100)], 0)
    database.close()
    os.truncate(path, path.stat().st_size // 2)
    opening_fails(path, Rejected, "DatabaseCorrupt", "damaged")


def test_a_full_disk_keeps_nothing_of_a_commit_and_the_next_one_works(path: Path) -> None:
    database = Database.open(path)
    database.commit([change(1)], 0)
    limit = database._connection.execute("PRAGMA page_count").fetchone()[0] + 2
    database._connection.execute(f"PRAGMA max_page_count = {limit}")
    with pytest.raises(Unavailable, match=r"no room left.*Free some disk space") as caught:
        database.commit([change(2, "b"), change(3, "big", value=b"x" * 100_000)], 0)
    assert caught.value.reason == "StorageFull"
    assert [row.name for row in database.objects()] == ["a"]
    database.commit([change(2, "small")], 0)
    assert [row.name for row in database.objects()] == ["a", "small"]
    database.close()


def test_a_database_that_another_program_locks_is_unavailable(path: Path) -> None:
    def impatient(at: Path) -> sqlite3.Connection:
        connection = connect(at)
        connection.execute("PRAGMA busy_timeout = 10")
        return connection

    database = Database.open(path, impatient)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked") as caught:
        database.commit([change(1)], 0)
    assert caught.value.reason == "StorageFailed"
    other.execute("ROLLBACK")
    other.close()
    database.commit([change(1)], 0)
    database.close()


def test_a_place_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    opening_fails(tmp_path / "missing" / "state.db", Unavailable, "StorageFailed", "cannot be opened")
