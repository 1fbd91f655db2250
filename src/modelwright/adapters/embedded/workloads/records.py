"""What is written down, so that a program that was killed finds again what it had started.

`run/OWNER/NAME/record.json` holds a workload and its processes. It is replaced atomically, and an intent is written
before a process is started: the record may name a process that never was, never lack one that is.
Nothing is synced to disk: a record outlives the program, and after the machine has lost power no process is left.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads.process import Identity
from modelwright.oci.disk import remove_tree
from modelwright.ports.errors import Invalid, Unavailable
from modelwright.ports.workloads import Failure, ServedVersion, Server, Task, TaskStatus

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_LOCK_SECONDS = 5.0


class TaskRecord(msgspec.Struct, tag="task", rename="camel", kw_only=True):
    """A task; `status` is there once it has ended.

    Of a command: when it was `begun`, the `ports` of its workers, the digests of its `downloads` by mount path,
    what its models looked like (`seals`, by key), the folder of its `progress` file and the path below that,
    and why we have `killed` it.
    """

    task: Task
    nonce: str = ""
    process: Identity | None = None
    status: TaskStatus | None = None
    begun: datetime | None = None
    ports: tuple[int, ...] = ()
    downloads: dict[str, str] = {}
    seals: dict[str, str] = {}
    progress: tuple[str, str] | None = None
    killed: Failure | None = None
    removed: bool = False


class ReplicaRecord(msgspec.Struct, rename="camel", kw_only=True):
    """A process of a server; without `process` it is meant to be started, or just was."""

    nonce: str
    process: Identity | None = None
    draining: bool = False


class GenerationRecord(msgspec.Struct, rename="camel", kw_only=True):
    """Replicas that run the same thing on the same port; `versions` and `default` are what they were told to serve."""

    number: int
    key: str
    port: int
    argv: tuple[str, ...]
    env: dict[str, str] = {}
    versions: tuple[ServedVersion, ...] = ()
    default: str = ""
    replicas: list[ReplicaRecord] = []


class ServerRecord(msgspec.Struct, tag="server", rename="camel", kw_only=True):
    """A server. `current` is the number of the generation that serves; `served` what it last served by default."""

    server: Server
    port: int = 0
    current: int = 0
    last_number: int = 0
    served: ServedVersion | None = None
    generations: list[GenerationRecord] = []
    restarts: int = 0
    removed: bool = False


Record = TaskRecord | ServerRecord
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader sees the old content or the new, whatever happens."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)


class RunDirectory:
    """`run/` below the data directory, held by one program at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _acquire(root / "lock")
        self.domain = _domain(root / "id")

    def close(self) -> None:
        os.close(self._lock)

    def folder(self, owner_uid: str, name: str) -> Path:
        """Where a workload's files are. Raises Invalid for a name that is no file name."""
        for part in (owner_uid, name):
            if not _SAFE.fullmatch(part):
                raise Invalid(f"{part!r} cannot name a workload: use letters, digits, '.', '_' and '-', at most 200")
        return self.root / owner_uid / name

    def write(self, record: Record) -> None:
        workload = record.task if isinstance(record, TaskRecord) else record.server
        folder = self.folder(workload.owner.uid, workload.name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(folder / "record.json", _encoder.encode(record))

    def read(self) -> Iterator[Record]:
        """All that was written down. A folder without a whole record is of no use and goes."""
        for folder in sorted(path for path in self.root.glob("[!.]*/*") if path.is_dir()):
            try:
                yield _decoder.decode((folder / "record.json").read_bytes())
            except (FileNotFoundError, msgspec.MsgspecError):
                self.forget(folder)

    def forget(self, folder: Path) -> None:
        """Remove a workload's files, and its owner's folder with the last of them."""
        remove_tree(folder)
        try:
            folder.parent.rmdir()
        except OSError:
            pass


def _acquire(path: Path) -> int:
    """Hold the lock. A child between fork and exec shares it: once we have it, every child's nonce can be seen."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(descriptor)
                raise Unavailable(
                    f"{path.parent} is in use: another modelwright runs on this data directory; stop it first",
                    reason="DataDirectoryInUse",
                ) from None
            time.sleep(0.02)
        else:
            return descriptor


def _domain(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        write_atomically(path, secrets.token_hex(8).encode("ascii"))
        return path.read_text("ascii")
