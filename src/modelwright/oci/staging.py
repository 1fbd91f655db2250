"""Content on its way in: files of random names that nobody reads before they are whole.

Each is locked while somebody writes it, so that a sweeper can tell what a killed process left behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from modelwright.oci import digests
from modelwright.oci.disk import disk_errors, state_of
from modelwright.ports.errors import Conflict, NotFound
from modelwright.ports.images import Digest

if TYPE_CHECKING:
    from hashlib import _Hash

_ID = re.compile(r"[0-9a-f]{32}\Z")


class Staged:
    """One open file in the staging folder; a context manager that closes it, and leaves it where it is."""

    def __init__(self, path: Path, descriptor: int, running: _Hash | None = None) -> None:
        self.path = path
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._running = running

    @property
    def id(self) -> str:
        """Its name, by which `Staging.resume` finds it again."""
        return self.path.name

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self.descriptor)

    def append(self, chunks: list[bytes]) -> None:
        """Write and hash more bytes. Raises Unavailable (DiskFull)."""
        running = self.running()
        with disk_errors():
            for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    written = os.write(self.descriptor, view)
                    running.update(view[:written])
                    self.size += written
                    view = view[written:]

    @property
    def hashed(self) -> tuple[int, _Hash] | None:
        """How many bytes were hashed, and their hash, unless it is unknown yet."""
        return None if self._running is None else (self.size, self._running)

    def continue_hash(self, known: tuple[int, _Hash] | None) -> None:
        """Give back what `hashed` said after an earlier request; it is ignored if the file has grown since."""
        if known is not None and known[0] == self.size:
            self._running = known[1]

    def running(self) -> _Hash:
        """The hash of what was written so far; read back if another process wrote it."""
        if self._running is None:
            self._running = hashlib.sha256()
            offset = 0
            while chunk := os.pread(self.descriptor, digests.CHUNK, offset):
                self._running.update(chunk)
                offset += len(chunk)
        return self._running

    def digest(self) -> Digest:
        """The digest of what was written."""
        return digests.finish(self.running())

    def discard(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


class Staging:
    """The folder of what is on its way in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new(self) -> Staged:
        """A new empty file, locked by us."""
        path = self.folder / secrets.token_hex(16)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Staged(path, descriptor, hashlib.sha256())

    def resume(self, name: str) -> Staged:
        """A file begun earlier.

        Raises NotFound (UploadUnknown), or Conflict (UploadBusy) while somebody else writes it.
        """
        path = self.folder / name
        if not _ID.match(name) or not path.is_file():
            raise _unknown(name)
        descriptor = _open_locked(path)
        if descriptor is None:
            raise Conflict(f"upload {name} is being written by another request", reason="UploadBusy")
        if os.fstat(descriptor).st_nlink == 0:
            os.close(descriptor)
            raise _unknown(name)
        return Staged(path, descriptor)

    def sweep(self, before: float) -> tuple[int, int]:
        """Remove files last touched before that time (seconds since 1970) that nobody writes: how many, how large."""
        count = size = 0
        for path in sorted(self.folder.iterdir()):
            found = state_of(path)
            if found is None or found.st_ctime > before or (descriptor := _open_locked(path)) is None:
                continue
            try:
                state = os.fstat(descriptor)
                if state.st_ctime <= before:
                    path.unlink(missing_ok=True)
                    count, size = count + 1, size + state.st_size
            finally:
                os.close(descriptor)
        return count, size


def _open_locked(path: Path) -> int | None:
    """The file, locked by us; None if it is gone or another has it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _unknown(name: str) -> NotFound:
    return NotFound(f"there is no upload {name[:64]!r}: start a new one", reason="UploadUnknown")
