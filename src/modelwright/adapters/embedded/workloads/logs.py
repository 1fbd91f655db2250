"""Log files: what a workload's processes print, kept to a bounded size."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

LIMIT = 10 * 1024 * 1024
_CHUNK = 64 * 1024
_POLL_SECONDS = 0.2


def open_log(path: Path) -> int:
    """A descriptor that appends, for processes to inherit."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(path: Path, limit: int = LIMIT) -> None:
    """Keep one older file. The processes hold this one open, so it is copied and emptied, not renamed."""
    try:
        if path.stat().st_size <= limit:
            return
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)
    except FileNotFoundError:
        return


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


async def read(path: Path, *, follow: bool, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """What is in the log, the older file first; with `follow` also what comes until `ended`."""
    for chunk in _chunks(path.with_name(f"{path.name}.1"), 0):
        yield chunk
    offset = 0
    while True:
        last = ended() or not follow
        if size(path) < offset:
            offset = 0
        for chunk in _chunks(path, offset):
            offset += len(chunk)
            yield chunk
        if last:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _chunks(path: Path, offset: int) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while chunk := file.read(_CHUNK):
                yield chunk
    except FileNotFoundError:
        return
