"""A repository of `ImageStorage` as the port `Images`: for builds on the machine that keeps the images."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from modelwright.oci import digests
from modelwright.oci.staging import Staged
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import Conflict, NotFound
from modelwright.ports.images import Content, Descriptor, Digest, Manifest, Progress

_SMALL = 1 << 18
_MAX_PENDING = 1 << 23


class LocalRepository:
    """Implements `Images` on disk.

    Blobs up to 256 KiB wait in memory for the manifest that needs them, and are flushed to the disk together with it;
    larger ones are flushed at once, so that they outlive a crash. When `write_manifest` returns, all that the manifest
    points to is on the disk, unless inside `batch`. Blobs may be written by several threads at once.
    """

    def __init__(self, storage: ImageStorage, repository: str, *, host: str = "") -> None:
        self._storage = storage
        self._stored = storage.repository(repository)
        self._host = host
        self._blobs: dict[Digest, bytes] = {}
        self._manifests: dict[Digest, Manifest] = {}
        self._batching = False
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """`host/repository`, or the repository alone where no host was given."""
        return f"{self._host}/{self._stored.name}" if self._host else self._stored.name

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Manifests written inside are on the disk when one is tagged, or when the block ends without an error."""
        self._batching = True
        try:
            yield
            with self._lock:
                self._commit(None)
        finally:
            self._batching = False
            self._manifests.clear()

    def resolve(self, reference: str) -> Descriptor | None:
        """What a tag or digest names, or None."""
        try:
            manifest = self.read_manifest(reference)
        except NotFound:
            return None
        return Descriptor(manifest.media_type, manifest.digest, len(manifest.data))

    def read_manifest(self, reference: str) -> Manifest:
        """The manifest of a tag or digest. Raises NotFound, Mismatch, Invalid."""
        pending = self._manifests.get(Digest(reference))
        return pending if pending is not None else self._stored.read_manifest(reference)

    def write_manifest(self, manifest: Manifest, tag: str | None = None) -> None:
        """Raises AlreadyExists (ImageTagTaken), NotFound for a part that is not there, Rejected, Mismatch."""
        with self._lock:
            self._manifests.pop(manifest.digest, None)
            self._manifests[manifest.digest] = manifest
            if tag is not None or not self._batching:
                self._commit(tag)

    def has_blob(self, digest: Digest) -> bool:
        """Whether the repository has this blob."""
        return digest in self._blobs or self._stored.has_blob(digest)

    @contextmanager
    def read_blob(self, digest: Digest, offset: int = 0) -> Iterator[Iterator[bytes]]:
        """The bytes from `offset` on, in chunks. Raises NotFound."""
        pending = self._blobs.get(digest)
        if pending is not None:
            yield iter([pending[offset:]])
            return
        with os.fdopen(self._stored.open_blob(digest), "rb", buffering=0) as file:
            file.seek(offset)
            yield iter(lambda: file.read(digests.CHUNK) or b"", b"")

    def write_blob(self, content: Content, *, sources: tuple[str, ...] = (), progress: Progress | None = None) -> None:
        """Store a blob unless this storage has it. Raises Conflict (StorageChanged) if the content has changed."""
        if self.has_blob(content.digest) or self._adopt(content.digest, sources):
            return
        if content.size <= _SMALL:
            self._keep(content, progress)
        else:
            self._write(content, progress)

    def tags(self) -> list[str]:
        """All tags, sorted."""
        return self._stored.tags()

    def referrers(self, digest: Digest) -> list[Descriptor]:
        """What refers to this manifest by its `subject`."""
        return self._stored.referrers(digest)

    def _adopt(self, digest: Digest, sources: tuple[str, ...]) -> bool:
        for source in sources:
            name = source.removeprefix(f"{self._host}/") if self._host else source
            if self._stored.adopt_blob(digest, self._storage.repository(name)):
                return True
        return self._stored.adopt_blob(digest)

    def _keep(self, content: Content, progress: Progress | None) -> None:
        with content.open() as stream:
            data = b"".join(iter(lambda: stream.read(_SMALL), b""))
        _check(content, digests.of(data), len(data))
        if progress is not None:
            progress(len(data))
        with self._lock:
            self._blobs[content.digest] = data
            if sum(map(len, self._blobs.values())) > _MAX_PENDING:
                with self._staged() as files:
                    self._stored.add_blobs(files)
                self._blobs.clear()

    def _write(self, content: Content, progress: Progress | None) -> None:
        with content.open() as stream, self._storage.staging.new() as staged:
            try:
                while chunk := stream.read(digests.CHUNK):
                    staged.append([chunk])
                    if progress is not None:
                        progress(len(chunk))
                _check(content, staged.digest(), staged.size)
                self._stored.add_blobs([(staged, content.digest)])
            finally:
                staged.discard()

    def _commit(self, tag: str | None) -> None:
        """Write what waits. A refused manifest is forgotten with those that wait beside it."""
        try:
            if self._manifests:
                with self._staged() as files:
                    self._stored.commit(files, tuple(self._manifests.values()), tag)
                self._blobs.clear()
        finally:
            self._manifests.clear()

    @contextmanager
    def _staged(self) -> Iterator[list[tuple[Staged, Digest]]]:
        with ExitStack() as stack:
            files = []
            for digest, data in self._blobs.items():
                file = stack.enter_context(self._storage.staging.new())
                stack.callback(file.discard)
                file.append([data])
                files.append((file, digest))
            yield files


def _check(content: Content, digest: Digest, size: int) -> None:
    if (digest, size) != (content.digest, content.size):
        raise Conflict(
            f"the content changed while it was read: {digest} of {size} bytes, "
            f"not {content.digest} of {content.size} bytes; build again",
            reason="StorageChanged",
        )
