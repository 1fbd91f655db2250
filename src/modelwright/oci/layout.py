"""Where a repository's things lie, and the lock that keeps those who delete away from those who write."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelwright.oci import digests
from modelwright.oci.disk import make_folders
from modelwright.ports.errors import NotFound
from modelwright.ports.images import Digest


class Layout:
    """The paths of one repository; `storage` draws them."""

    def __init__(self, name: str, folder: Path, shared: Path) -> None:
        self.name = name
        self.blobs = folder / "_blobs"
        self.manifests = folder / "_manifests"
        self.tags = folder / "_tags"
        self.referrers = folder / "_referrers"
        self._lock = folder / "_lock"
        self._shared = shared

    def blob(self, digest: Digest) -> Path:
        """A blob, which is there or would be."""
        return self.blobs / digests.hexadecimal(digest)

    def shared(self, digest: Digest) -> Path:
        """The same content for all repositories."""
        return self._shared / digests.hexadecimal(digest)

    def manifest(self, digest: Digest) -> Path:
        """A manifest."""
        return self.manifests / digests.hexadecimal(digest)

    def mark(self, subject: Digest, digest: Digest) -> Path:
        """The empty file that says that one manifest refers to another."""
        return self.referrers / digests.hexadecimal(subject) / digests.hexadecimal(digest)

    def make(self) -> None:
        """Make the folders; the lock comes last, and with it the repository exists."""
        if self._lock.exists():
            return
        for folder in (self.blobs, self.tags, self.referrers, self.manifests):
            make_folders(folder)
        os.close(os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))

    @contextmanager
    def locked(self, *, exclusive: bool = False) -> Iterator[None]:
        """Shared for those who write, exclusive for those who delete. Raises NotFound before the first write."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotFound(f"there is no repository {self.name}", reason="RepositoryNotFound") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)


def names(folder: Path) -> list[str]:
    """What lies in a folder, sorted; nothing if there is no folder."""
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
