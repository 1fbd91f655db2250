"""The objects of the embedded control plane: one ordered history of durable changes, read from memory.

A write is a synchronous function on a Transaction. Functions that wait are run one after the other on the event loop,
their changes committed together by a writer thread with one fsync, and then published: memory, watchers, callers, in
order. Nothing that is not durable can be read by anybody; if the commit fails, memory is as it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec

from modelwright.adapters.embedded.database import ChangeRow, Connect, Database, connect, damaged
from modelwright.adapters.embedded.history import Change, Entry, History, Key
from modelwright.adapters.embedded.index import Index
from modelwright.adapters.embedded.transaction import Transaction, entry_of
from modelwright.ports.errors import ModelwrightError, Unavailable

T = TypeVar("T")
State = dict[tuple[str, str], Entry]

KEEP_CHANGES = 4096
BATCH = 256
log = logging.getLogger(__name__)


class _Write(msgspec.Struct, gc=True):
    change: Callable[[Transaction], Any]
    answer: asyncio.Future[Any]
    dry_run: bool


class Objects:
    """All objects. For one event loop; see `write` for the only way to change something."""

    def __init__(self, database: Database, keep: int) -> None:
        self._database = database
        self._published: dict[str, State] = {}
        self._index = Index()
        self._waiting: list[_Write] = []
        self._committer: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._closed = False
        self._load()
        self.history = History(self._load_changes(), keep)

    @classmethod
    def open(cls, path: Path, *, keep: int = KEEP_CHANGES, connect: Connect = connect) -> Objects:
        """Open or create the database at `path`, with the newest `keep` changes to resume watches from.

        Raises as Database.open does.
        """
        database = Database.open(path, connect)
        try:
            return cls(database, keep)
        except BaseException:
            database.close()
            raise

    @property
    def version(self) -> int:
        """The version of the newest published change; it never goes back."""
        return self.history.version

    def get(self, key: Key) -> Entry | None:
        """An object as published."""
        return self._published.get(key[0], {}).get(key[1:])

    def snapshot(self, resource: str, namespace: str = "", at: int | None = None) -> list[Entry]:
        """The published objects of a resource in order of namespace and name, as they are or as they were at a version.

        Raises Expired if that version is no longer known.
        """
        entries = self._published.get(resource, {})
        if at is not None and at != self.version:
            entries = self._as_it_was(entries, resource, at)
        if namespace:
            return [entries[key] for key in sorted(key for key in entries if key[0] == namespace)]
        return [entries[key] for key in sorted(entries)]

    async def write(self, change: Callable[[Transaction], T], *, dry_run: bool = False) -> T:
        """Run a change and return its result once it is durable and published; a dry run leaves nothing behind.

        What the change raises is raised here, and takes its own changes back. Raises Unavailable if the disk refuses:
        then nothing has happened.
        """
        if self._closed:
            raise Unavailable("the control plane is stopping", reason="Stopping")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(change, answer, dry_run))
        if self._committer is None:
            self._committer = asyncio.create_task(self._commit_all(), name="store-committer")
        return await answer

    async def close(self) -> None:
        """Finish what was begun, end all watches, close the file."""
        self._closed = True
        if self._committer is not None:
            await self._committer
        self.history.close()
        self._writer.shutdown()
        self._database.close()

    async def _commit_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            await self._commit(batch)
        self._committer = None

    async def _commit(self, batch: list[_Write]) -> None:
        transaction = Transaction(self._published, self._index, self.version)
        results = [_run(transaction, write) for write in batch]
        try:
            await self._make_durable(transaction.changes)
        except Exception as error:
            transaction.roll_back(0)
            log.error("A write failed: %s", error)
            failure = error if isinstance(error, ModelwrightError) else Unavailable(f"the store failed: {error}")
            results = [failure for _ in batch]
        for write, result in zip(batch, results, strict=True):
            _answer(write.answer, result)

    async def _make_durable(self, changes: list[Change]) -> None:
        if not changes:
            return
        forget = self.history.surplus(len(changes))
        rows = [_row(change) for change in changes]
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self._database.commit, rows, forget)
        for change in changes:
            self._apply(change)
        self.history.publish(changes, forget)

    def _apply(self, change: Change) -> None:
        entries = self._published.setdefault(change.key[0], {})
        if change.type == "DELETED":
            del entries[change.key[1:]]
        else:
            entries[change.key[1:]] = change.entry

    def _as_it_was(self, entries: State, resource: str, at: int) -> State:
        past = dict(entries)
        for key, entry in self.history.undo(at, resource):
            if entry is None:
                past.pop(key[1:], None)
            else:
                past[key[1:]] = entry
        return past

    def _load(self) -> None:
        for row in self._database.objects():
            entry = self._entry(row.value, row.version, f"{row.resource} {row.namespace}/{row.name}")
            self._published.setdefault(row.resource, {})[(row.namespace, row.name)] = entry
            self._index.replace((row.resource, row.namespace, row.name), None, entry)

    def _load_changes(self) -> list[Change]:
        newest: dict[tuple[Key, int], Entry] = {
            ((resource, *key), entry.version): entry
            for resource, entries in self._published.items()
            for key, entry in entries.items()
        }

        def shared(key: Key, value: bytes, version: int) -> Entry:
            # The same state of an object is in memory once, however many changes mention it.
            known = newest.get((key, version))
            if known is None:
                known = newest[key, version] = self._entry(value, version, f"change {version}")
            return known

        changes = []
        for row in self._database.changes():
            key = (row.resource, row.namespace, row.name)
            previous = None if row.previous is None else shared(key, row.previous, row.previous_version)
            type_ = cast("Literal['ADDED', 'MODIFIED', 'DELETED']", row.type)
            changes.append(Change(type_, key, shared(key, row.value, row.version), previous))
        self._check(changes)
        return changes

    def _check(self, changes: list[Change]) -> None:
        """Versions are consecutive, and no object is newer than the newest change."""
        newest = changes[-1].version if changes else 0
        objects = max((entry.version for state in self._published.values() for entry in state.values()), default=0)
        consecutive = all(b.version == a.version + 1 for a, b in pairwise(changes))
        if not consecutive or objects > newest:
            raise damaged(self._database.path, "its history has gaps")

    def _entry(self, value: bytes, version: int, where: str) -> Entry:
        try:
            return entry_of(value, version)
        except msgspec.MsgspecError as error:
            raise damaged(self._database.path, f"{where}: {error}") from error


def _run(transaction: Transaction, write: _Write) -> Any:
    mark = transaction.mark()
    try:
        result = write.change(transaction)
    except Exception as error:
        transaction.roll_back(mark)
        return error
    if write.dry_run:
        transaction.roll_back(mark)
    return result


def _answer(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _row(change: Change) -> ChangeRow:
    previous = change.previous
    return ChangeRow(
        change.version,
        change.type,
        *change.key,
        change.entry.value,
        previous.version if previous else 0,
        previous.value if previous else None,
    )
