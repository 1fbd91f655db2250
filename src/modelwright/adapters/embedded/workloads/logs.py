"""Log files: what a workload's processes print, kept to a bounded size."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

LIMIT = 10 * 1024 * 1024
_CHUNK = 64 * 1024
_POLL_SECONDS = 0.2
_NEAR = 4 * 1024 * 1024
"""Many workers print that much in the time in which one fails."""


def open_log(path: Path) -> int:
    """A descriptor that appends, for processes to inherit."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(path: Path, limit: int = LIMIT) -> None:
    """Keep one older file. The processes hold this one open, so it is copied and emptied, not renamed.

    Where there is no room for the copy it goes: what a process prints next is worth more.
    """
    if size(path) <= limit:
        return
    older = _older(path)
    fresh = older.with_name(f".{older.name}.new")
    try:
        shutil.copyfile(path, fresh)
        fresh.replace(older)
    except OSError:
        for lost in (fresh, older):
            with contextlib.suppress(OSError):
                lost.unlink()
    with contextlib.suppress(FileNotFoundError):
        os.truncate(path, 0)


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def last_lines(path: Path, since: int = 0, *, count: int = 5, longest: int = 1000) -> str:
    """The last lines after offset `since`, for a message."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(since if since <= end else 0, end - longest))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(line.rstrip() for line in text.strip().splitlines()[-count:])


def last_lines_of(path: Path, writer: str, *, count: int = 5, longest: int = 1000) -> str:
    """The last lines that begin with `writer: `, without that, as far as they are near the end."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _NEAR))
            found = re.findall(rb"^%b: (.*)" % re.escape(writer.encode()), file.read(), re.MULTILINE)
    except FileNotFoundError:
        return ""
    return "\n".join(line.decode("utf-8", "replace").rstrip() for line in found[-count:])[-longest:]


async def read(path: Path, *, follow: bool, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """What is in the log, the older file first; with `follow` also what comes until `ended`."""
    older = _older(path)
    seen, offset = _stamp(older), 0
    for chunk in _chunks(older, 0):
        yield chunk
    while True:
        last = ended() or not follow
        if (now := _stamp(older)) != seen:  # it has been rotated: the rest of what was begun is in the older file
            rest, seen, offset = _chunks(older, offset), now, 0
            for chunk in rest:
                yield chunk
            continue
        for chunk in _chunks(path, offset):
            if _stamp(older) != seen:
                break  # it was emptied under our hands
            offset += len(chunk)
            yield chunk
        if _stamp(older) != seen:
            continue
        if last:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What is another once there is another file; None for none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _chunks(path: Path, offset: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while chunk := file.read(_CHUNK):
                yield chunk
    except FileNotFoundError:
        return
