"""What a command says of its progress, in a file that it writes: read without trusting it.

`{"completed": 3, "total": 10, "message": "epoch 3"}`; whatever is something else is passed over.
"""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path, PurePosixPath

import msgspec

from modelwright.ports.workloads import Steps

MAX_BYTES = 16 * 1024
MAX_MESSAGE = 512
MAX_COUNT = 2**53
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Said(msgspec.Struct):
    completed: float | None = None
    total: float | None = None
    message: str | None = None


_decoder = msgspec.json.Decoder(_Said)
Seen = tuple[int, int, int]


class ProgressFile:
    """The file at `path` below `folder`, on the way to which no link is followed.

    `since`: what was last written before this moment, by an earlier attempt, does not count (nanoseconds).
    """

    def __init__(self, folder: Path, path: PurePosixPath, since: int) -> None:
        self._folder = folder
        self._path = path
        self._since = since
        self._seen: Seen | None = None
        self.steps: Steps | None = None

    def look(self) -> bool:
        """Read it if it has changed; whether it says anything new. A broken file is as good as none."""
        try:
            fresh = self._read()
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return False
        if fresh is None or fresh == self.steps:
            return False
        self.steps = fresh
        return True

    def _read(self) -> Steps | None:
        descriptor = _open(self._folder, self._path)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen == self._seen or not stat.S_ISREG(found.st_mode) or found.st_mtime_ns < self._since:
                return None
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            self._seen = seen
            return None
        said = _decoder.decode(data)
        self._seen = seen  # what cannot be decoded may be half written, and is read again
        return _steps(said)


def _open(folder: Path, path: PurePosixPath) -> int:
    """Raises OSError for a link on the way, and for what is not there."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.parts[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=place)
            os.close(place)
            place = inner
        return os.open(path.name, _FILE, dir_fd=place)
    finally:
        os.close(place)


def _steps(said: _Said) -> Steps | None:
    completed, total = _count(said.completed), _count(said.total)
    if completed is None or total is None:
        return None
    text = "".join(each if each.isprintable() else " " for each in (said.message or "")[:MAX_MESSAGE])
    return Steps(completed, total, " ".join(text.split()))


def _count(number: float | None) -> int | None:
    """A number of steps; None for what is none."""
    if number is None:
        return 0
    return int(number) if math.isfinite(number) and 0 <= number <= MAX_COUNT else None
