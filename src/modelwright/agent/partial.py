"""A download on its way: the bytes so far, and beside them what tells whether they may be continued."""

from __future__ import annotations

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import msgspec

from modelwright.oci import digests
from modelwright.oci.beside import BesideHash
from modelwright.oci.disk import check_room, disk_errors
from modelwright.ports.errors import Conflict
from modelwright.ports.images import Digest


class Origin(msgspec.Struct, frozen=True):
    """Where the bytes came from.

    `url`: the digest of the URL, which may hold secrets.
    `validator`: a strong ETag or a date, as If-Range takes it (RFC 9110, 13.1.5).
    """

    url: str
    validator: str = ""


class Partial:
    """The `.part` file and its sidecar `.part.json`; a context manager that closes, and keeps, both."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sidecar = path.with_name(f"{path.name}.json")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_APPEND
        self._descriptor = os.open(path, flags, 0o600)
        self.origin = Origin("")
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hash")
        self._hash = BesideHash(self._pool)
        self.size = 0

    def __enter__(self) -> Partial:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise Conflict(f"{self.path} is being downloaded by another process", reason="DownloadBusy") from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        os.close(self._descriptor)

    def load(self, url: str) -> None:
        """Take over what an earlier run left, if it came from the same address; else begin anew."""
        try:
            found = msgspec.json.decode(self._sidecar.read_bytes(), type=Origin)
        except (OSError, msgspec.MsgspecError):
            found = Origin("")
        if found.url != url:
            self.restart(Origin(url))
            return
        self.origin = found
        while chunk := os.pread(self._descriptor, digests.CHUNK, self.size):
            self._hash.update(chunk)
            self.size += len(chunk)

    def restart(self, origin: Origin) -> None:
        """Forget the bytes; what comes now is from `origin`."""
        if os.fstat(self._descriptor).st_size:  # a file that was once truncated is flushed when it is closed (ext4)
            os.ftruncate(self._descriptor, 0)
        self._hash, self.size, self.origin = BesideHash(self._pool), 0, origin
        self._sidecar.write_bytes(msgspec.json.encode(origin))

    def expect(self, total: int) -> None:
        """Raise Unavailable (DiskFull) if what is still to come has no room."""
        check_room(self._descriptor, total - self.size)

    def append(self, chunk: bytes) -> None:
        """Write and hash. Raises Unavailable (DiskFull)."""
        view, written = memoryview(chunk), 0
        try:
            with disk_errors():
                while written < len(chunk):
                    written += os.write(self._descriptor, view[written:])
        finally:
            self._hash.update(chunk[:written])
            self.size += written

    def digest(self) -> Digest:
        """The digest of the bytes so far."""
        return digests.finish(self._hash)

    def discard(self) -> None:
        """Remove both files."""
        self._sidecar.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
