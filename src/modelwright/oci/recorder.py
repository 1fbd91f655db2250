"""What is unpacked, hashed while it is written: nobody has to read it again to know what it is."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import msgspec

from modelwright.oci.beside import BesideHash

_WORTH_A_THREAD = 1 << 22
"""Bytes of a file from which on another core shares the work."""


class Written(msgspec.Struct, frozen=True):
    """A file's length, and its SHA-256 in hexadecimal."""

    size: int
    sha256: str


class Recorder:
    """Notes each file that a `SafeTree` writes, by its path below the folder. A context manager that ends its thread.

    The hashes are those of the bytes that were given to the system, not of what a disk gives back: a file that went
    wrong on its way is found by whoever verifies it.
    """

    def __init__(self) -> None:
        self.files: dict[str, Written] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hash")

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, path: str, size: int) -> Hashing:
        """A file is about to be written; one that it replaces is forgotten."""
        self.files.pop(path, None)
        return Hashing(self, path, size, self._pool if size >= _WORTH_A_THREAD else None)

    def note(self, path: str, size: int, sha256: str) -> None:
        """This file is there now."""
        self.files[path] = Written(size, sha256)


class Hashing:
    """One file on its way."""

    def __init__(self, recorder: Recorder, path: str, size: int, pool: ThreadPoolExecutor | None) -> None:
        self._recorder, self._path, self._size = recorder, path, size
        self._running = BesideHash(pool) if pool is not None else hashlib.sha256()

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._running.update(chunk)

    def end(self) -> None:
        """The file is there, whole."""
        self._recorder.note(self._path, self._size, self._running.hexdigest())
