"""The folder of kept hard examples: files of JSON lines, the oldest of which go when there are too many bytes.

A file is written under a hidden name (`.hard-….jsonl.part`), locked by its writer, and gets its name (`hard-….jsonl`)
when it is whole: who reads `hard-*.jsonl` never sees half a line. What a writer that is gone has left is finished by
the next. Several processes may write to one folder. All methods block: call them in a thread, one at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

PREFIX, SUFFIX, PART = "hard-", ".jsonl", ".part"
LARGEST_FILE = 4 * 1024 * 1024
FILES_AT_LEAST = 8
_MODE = 0o600


class KeptFolder:
    """Keeps lines, at most `max_bytes` of them. `size` is what is in the folder, as far as it was looked at."""

    def __init__(self, path: Path, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.size = 0
        self._max_bytes = max_bytes
        self._clock = clock
        self._nonce = os.urandom(4).hex()
        self._number = 0
        self._part: _Part | None = None

    def open(self) -> None:
        """Makes the folder, finishes what others have left, and counts. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._finish_left()
        self._count()

    def write(self, lines: Iterable[bytes]) -> int:
        """Keeps lines (without line ends), and returns how many; one that is longer than all there may be is not.

        Raises OSError if the disk does not take them; what was written before stays, and nothing is torn.
        """
        self._count()
        kept = 0
        for line in lines:
            if len(line) + 1 <= self._max_bytes and self._make_room(len(line) + 1):
                self._append(line + b"\n")
                kept += 1
        return kept

    def publish(self, older_than: float = 0.0) -> None:
        """Gives the present file its name, if it was begun that many seconds ago. Raises OSError."""
        if self._part is None or self._clock() - self._part.begun < older_than:
            return
        part, self._part = self._part, None
        part.finish()

    # Files ----------------------------------------------------------------------------------------------------------

    @property
    def _largest(self) -> int:
        return min(LARGEST_FILE, max(1, self._max_bytes // FILES_AT_LEAST))

    def _append(self, data: bytes) -> None:
        part = self._part or self._begin()
        part.write(data)
        self.size += len(data)
        if part.size >= self._largest:
            self.publish()

    def _begin(self) -> _Part:
        while self._part is None:
            self._part = self._try_to_begin()
        return self._part

    def _try_to_begin(self) -> _Part | None:
        """A file of our own; None if another process, looking for what is left, took it before we had locked it."""
        now = self._clock()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self._number += 1
        name = f"{PREFIX}{stamp}-{self._nonce}-{self._number:06d}{SUFFIX}"
        part = _Part(self.path, name, now)
        if part.locked():
            return part
        part.close()
        return None

    def _make_room(self, size: int) -> bool:
        """Removes the oldest files until `size` bytes more fit; False if others hold the room."""
        while self.size + size > self._max_bytes:
            if self._part is not None and not self._names():
                self.publish()
            oldest = next(iter(self._names()), None)
            if oldest is None:
                return False
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                (self.path / oldest).unlink()
            self._count()
        return True

    def _names(self) -> list[str]:
        """The finished files, the oldest first."""
        return sorted(entry.name for entry in self._files() if entry.name.startswith(PREFIX))

    def _files(self) -> list[os.DirEntry[str]]:
        with os.scandir(self.path) as entries:
            return [entry for entry in entries if _is_ours(entry)]

    def _count(self) -> None:
        total = 0
        for entry in self._files():
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_size
        self.size = total

    def _finish_left(self) -> None:
        for entry in self._files():
            if entry.name.endswith(PART):
                finish_left(self.path / entry.name)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    whole = name.startswith(PREFIX) and name.endswith(SUFFIX)
    part = name.startswith("." + PREFIX) and name.endswith(SUFFIX + PART)
    return (whole or part) and entry.is_file(follow_symlinks=False)


class _Part:
    """A file that is being written; raises OSError."""

    def __init__(self, folder: Path, name: str, begun: float) -> None:
        self.begun = begun
        self.size = 0
        self._whole = folder / name
        self._path = folder / f".{name}{PART}"
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _MODE)

    def locked(self) -> bool:
        """Locks it, and says whether it is there for us alone."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._path.stat().st_ino == os.fstat(self._fd).st_ino
        except (BlockingIOError, FileNotFoundError):
            return False

    def write(self, data: bytes) -> None:
        try:
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            os.ftruncate(self._fd, self.size)  # a full disk leaves no half line
            raise
        self.size += len(data)

    def finish(self) -> None:
        try:
            if self.size:
                os.fsync(self._fd)
                self._path.rename(self._whole)
            else:
                self._path.unlink()
        finally:
            self.close()

    def close(self) -> None:
        os.close(self._fd)


def finish_left(path: Path) -> None:
    """Finishes a file whose writer is gone, without a last line that is not whole; leaves one that is being written."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end = _last_line_end(fd)
        os.ftruncate(fd, end)
        if end:
            path.rename(path.with_name(path.name.removeprefix(".").removesuffix(PART)))
        else:
            path.unlink()
    except (BlockingIOError, FileNotFoundError):
        return  # somebody else writes it, or has just finished it
    finally:
        os.close(fd)


def _last_line_end(fd: int) -> int:
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - 65536)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
