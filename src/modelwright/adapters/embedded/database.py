"""The file behind the store: SQLite in WAL mode, where a commit that returns has reached the disk.

Two tables: `objects` is what exists now, `changes` the newest changes in order of their version, for watches to resume
from. Every commit writes both, so that they never disagree.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from modelwright.ports.errors import ModelwrightError, Rejected, Unavailable

APPLICATION_ID = 0x4D4F4457
SCHEMA_VERSION = 1
BUSY_SECONDS = 5.0
_SCHEMA = (
    """CREATE TABLE objects (
        resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        version INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID""",
    """CREATE TABLE changes (
        version INTEGER PRIMARY KEY, type TEXT NOT NULL,
        resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        value BLOB NOT NULL, previous_version INTEGER NOT NULL, previous BLOB)""",
)
_FULL = frozenset({sqlite3.SQLITE_FULL})
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

Connect = Callable[[Path], sqlite3.Connection]


class ObjectRow(msgspec.Struct, frozen=True):
    resource: str
    namespace: str
    name: str
    version: int
    value: bytes


class ChangeRow(msgspec.Struct, frozen=True):
    """`previous` is what the change replaced, None for a creation; `value` of a deletion is the object's last state."""

    version: int
    type: str
    resource: str
    namespace: str
    name: str
    value: bytes
    previous_version: int
    previous: bytes | None


def connect(path: Path) -> sqlite3.Connection:
    """A connection that leaves transactions to us and may be handed to the writer thread."""
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


class Database:
    """One open database. Not for two threads at once."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path, connect: Connect = connect) -> Database:
        """Open or create the database, and check it.

        Raises Rejected (DatabaseCorrupt, DatabaseTooNew, DatabaseForeign) and Unavailable (StorageFull, StorageFailed);
        the message says what to do.
        """
        with _translated(path):
            path.touch(mode=0o600)
            connection = connect(path)
            try:
                _prepare(path, connection)
            except BaseException:
                connection.close()
                raise
            return cls(path, connection)

    def objects(self) -> Iterator[ObjectRow]:
        """Everything that exists. Raises as `open` does."""
        with _translated(self.path):
            for row in self._connection.execute("SELECT resource, namespace, name, version, value FROM objects"):
                yield ObjectRow(*row)

    def changes(self) -> Iterator[ChangeRow]:
        """The newest changes, oldest first. Raises as `open` does."""
        with _translated(self.path):
            yield from (ChangeRow(*row) for row in self._connection.execute("SELECT * FROM changes ORDER BY version"))

    def commit(self, changes: Sequence[ChangeRow], forget: int) -> None:
        """Write changes down, all or none, and forget those up to the version `forget`.

        When it returns they survive a power failure. Raises Unavailable (StorageFull, StorageFailed): nothing is kept.
        """
        with _translated(self.path):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._write(changes, forget)
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    def close(self) -> None:
        self._connection.close()

    def _write(self, changes: Sequence[ChangeRow], forget: int) -> None:
        run = self._connection
        run.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(msgspec.structs.astuple, changes))
        for change in changes:
            key = (change.resource, change.namespace, change.name)
            if change.type == "DELETED":
                run.execute("DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?", key)
            else:
                run.execute(
                    "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", (*key, change.version, change.value)
                )
        run.execute("DELETE FROM changes WHERE version <= ?", (forget,))

    def _roll_back(self) -> None:
        # SQLite has often rolled back by itself; then there is no transaction any more.
        if self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    def value(statement: str) -> object:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None

    application, version = value("PRAGMA application_id"), value("PRAGMA user_version")
    empty = value("SELECT count(*) FROM sqlite_schema") == 0
    if not empty and application != APPLICATION_ID:
        raise Rejected(
            f"{path} is a database of another program. Choose another directory with --data-dir",
            reason="DatabaseForeign",
        )
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise Rejected(
            f"{path} was written by a newer Modelwright (schema {version}; this program knows {SCHEMA_VERSION}). "
            "Run that version, or choose another directory with --data-dir",
            reason="DatabaseTooNew",
        )
    if (damage := value("PRAGMA quick_check(1)")) != "ok":
        raise damaged(path, str(damage))
    _configure(connection)
    if empty:
        _create(connection)


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # macOS only: an fsync there does not reach the platter without it.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    # The objects are kept in memory by us: pages need not be kept twice.
    connection.execute("PRAGMA cache_size = -1024")


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def damaged(path: Path, what: str) -> Rejected:
    """The error of a database that cannot be trusted."""
    return Rejected(
        f"the database {path} is damaged ({what}). Stop here, keep a copy of it and of {path.name}-wal, "
        "then restore a backup, or start with an empty directory by --data-dir",
        reason="DatabaseCorrupt",
    )


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise translate(path, error) from error
    except OSError as error:
        raise Unavailable(f"the database {path} cannot be opened: {error.strerror}", reason="StorageFailed") from error


def translate(path: Path, error: sqlite3.Error) -> ModelwrightError:
    """What a SQLite error means to the user."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BROKEN:
        return damaged(path, str(error))
    if code in _FULL:
        return Unavailable(
            f"no room left for the database {path}: nothing was written. Free some disk space and try again",
            reason="StorageFull",
        )
    return Unavailable(
        f"the database {path} could not be read or written ({error}): nothing was acknowledged. "
        "Look at the disk and its permissions, then try again",
        reason="StorageFailed",
    )
