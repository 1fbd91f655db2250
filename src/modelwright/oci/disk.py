"""Files that are on the disk when we say so: flush, link, and what a full disk means."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from modelwright.ports.errors import Unavailable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINK = (errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.EXDEV)
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)
_AT_ONCE = 4
_WORTH_ASKING = 1 << 24


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn a full disk into Unavailable (DiskFull); other errors of the system pass."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise Unavailable("no space left on the disk: make room and try again", reason="DiskFull") from error
        raise


def check_room(descriptor: int, size: int) -> None:
    """Raise Unavailable (DiskFull) before a disk is filled for nothing; small sizes are not worth asking."""
    if size < _WORTH_ASKING:
        return
    state = os.fstatvfs(descriptor)
    free = state.f_bavail * state.f_frsize
    if size > free:
        raise Unavailable(f"{size} bytes are needed and {free} are free: make room and try again", reason="DiskFull")


def sync(descriptor: int) -> None:
    """Flush an open file or folder to the disk itself (macOS does so only when asked by name)."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)


def sync_all(descriptors: Sequence[int]) -> None:
    """Flush several at once: the file system then shares its journal commits."""
    if len(descriptors) < 3:
        for descriptor in descriptors:
            sync(descriptor)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(sync, descriptors):
            pass


def sync_path(path: Path) -> None:
    """Flush a file or folder; a link is not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Remove a folder of ours with all that is in it, even if its folders are read-only; best effort."""
    for place, _, _ in os.walk(path) if not path.is_symlink() else ():
        with suppress(OSError):
            Path(place).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def make_folders(path: Path) -> None:
    """Make a folder and those above it so that they outlive a power loss."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o755, exist_ok=True)
        sync_path(folder.parent)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; where the file system cannot, copy it. Raises FileExistsError, FileNotFoundError."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy(source, target)


def publish(source: Path, target: Path) -> None:
    """Move a file to a name that others may be giving to the same content: an existing one is never replaced.

    (Who links to a name while it is being replaced can be told that it does not exist.)
    """
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        source.replace(target)
    source.unlink(missing_ok=True)


def state_of(path: Path) -> os.stat_result | None:
    """Its state, None if it is gone; a link is not followed."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _copy(source: Path, target: Path) -> None:
    """As a link does: the whole file appears, or none, and nothing is replaced."""
    if target.exists():
        raise FileExistsError(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.copy")
    with source.open("rb") as read, partial.open("wb") as write:
        while chunk := read.read(1 << 20):
            write.write(chunk)
        write.flush()
        sync(write.fileno())
    partial.rename(target)
