"""One repository on disk: its blobs, manifests, tags and referrers. `storage` draws the layout."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from modelwright.oci import digests, manifests, media, reference
from modelwright.oci.disk import disk_errors, link, make_folders, publish, state_of, sync_all, sync_path
from modelwright.oci.staging import Staged, Staging
from modelwright.ports.errors import AlreadyExists, Mismatch, NotFound, Rejected
from modelwright.ports.images import Descriptor, Digest, Manifest

_FRESH = 600.0
"""Seconds in which a blob that was asked for need not be marked again as in use."""


NewBlobs = Sequence[tuple[Staged, Digest]]
"""Files that were written and hashed, and their digests."""


class _Shape(msgspec.Struct, rename="camel"):
    media_type: str = ""
    manifests: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class StoredRepository:
    """What `LocalRepository` and the registry's server share."""

    def __init__(self, name: str, folder: Path, shared: Path, staging: Staging) -> None:
        self.name = name
        self.staging = staging
        self._shared = shared
        self._blobs = folder / "_blobs"
        self._manifests = folder / "_manifests"
        self._tags = folder / "_tags"
        self._referrers = folder / "_referrers"
        self._lock = folder / "_lock"

    # Blobs

    def blob_path(self, digest: Digest) -> Path:
        """Where a blob lies, or would."""
        return self._blobs / digests.hexadecimal(digest)

    def has_blob(self, digest: Digest) -> bool:
        """Whether the blob is there; garbage collection then leaves it alone for its time of grace."""
        path = self.blob_path(digest)
        try:
            if time.time() - path.stat().st_ctime > _FRESH:
                with self.locked():
                    os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def open_blob(self, digest: Digest) -> int:
        """A descriptor of the blob. Raises NotFound."""
        try:
            return os.open(self.blob_path(digest), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise NotFound(f"{self.name} has no blob {digest}", reason="BlobNotFound") from None

    def add_blobs(self, blobs: NewBlobs) -> None:
        """Take in new blobs, flushed; their files are gone from the staging folder. Raises Unavailable (DiskFull)."""
        with disk_errors():
            self._make()
            sync_all([file.descriptor for file, _ in blobs])
            self._place(blobs)

    def adopt_blob(self, digest: Digest, source: StoredRepository | None = None) -> bool:
        """Take a blob that another repository (any, if none is named) has; False if there is none."""
        origin = source.blob_path(digest) if source is not None else self._shared / digests.hexadecimal(digest)
        if not origin.is_file():
            return False
        with disk_errors():
            self._make()
            with self.locked():
                found = self._linked(origin, digest)
            sync_path(self._blobs)
        return found

    def delete_blob(self, digest: Digest) -> None:
        """Raises NotFound, or Rejected (StillReferenced) while a manifest needs it."""
        with self.locked(exclusive=True):
            if digest in self.referenced():
                raise Rejected(f"a manifest of {self.name} needs {digest}: delete it first", reason="StillReferenced")
            try:
                self.blob_path(digest).unlink()
            except FileNotFoundError:
                raise NotFound(f"{self.name} has no blob {digest}", reason="BlobNotFound") from None

    # Manifests

    def read_manifest(self, wanted: str) -> Manifest:
        """The manifest of a tag or digest, checked. Raises NotFound, Mismatch, Invalid."""
        if ":" in wanted:
            path = self._manifest_path(digests.parse(wanted))
        else:
            reference.check_tag(wanted)
            path = self._tags / wanted
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{self.name} has no manifest {wanted}", reason="ImageNotFound") from None
        digest = digests.of(data)
        if not self._manifest_path(digest).is_file():
            raise Mismatch(f"the stored manifest {wanted} is damaged: push it again", reason="DigestMismatch")
        return Manifest(_media_type(data), digest, data)

    def put_manifest(self, manifest: Manifest, tag: str | None = None, *, move: bool = False) -> None:
        """As `commit` for one manifest whose parts are there."""
        self.commit((), (manifest,), tag, move=move)

    def commit(self, blobs: NewBlobs, new: Sequence[Manifest], tag: str | None = None, *, move: bool = False) -> None:
        """Store blobs and manifests, children first, and tag the last; all is on the disk when this returns.

        Raises Rejected, Mismatch or Invalid for what is no manifest, NotFound (ManifestBlobUnknown,
        ManifestChildUnknown) for a missing part, AlreadyExists (ImageTagTaken) for a tag of other content
        unless `move`, Unavailable (DiskFull).
        """
        reference.check_tag(tag)
        decoded = [manifests.decode(manifest) for manifest in new]
        with disk_errors():
            self._make()
            with self.locked(), ExitStack() as stack:
                self._check_children(decoded, {digest: file.size for file, digest in blobs}, {m.digest for m in new})
                files = self._stage_manifests(new, stack)
                sync_all([file.descriptor for file, _ in (*blobs, *files)])
                self._place(blobs)
                for file, digest in files:
                    publish(file.path, self._manifest_path(digest))
                sync_path(self._manifests)
                for manifest, content in zip(new, decoded, strict=True):
                    if content.subject is not None:
                        self._refer(content.subject.digest, manifest.digest)
                if tag is not None:
                    self._tag(new[-1].digest, tag, move=move)

    def delete_manifest(self, digest: Digest) -> None:
        """Delete it and its tags. Raises NotFound, or Rejected (StillReferenced) while an index lists it."""
        with self.locked(exclusive=True):
            self.read_manifest(digest)
            if digest in self.referenced():
                raise Rejected(f"an index of {self.name} lists {digest}: delete it first", reason="StillReferenced")
            for tag in self.tags():
                if digests.of((self._tags / tag).read_bytes()) == digest:
                    (self._tags / tag).unlink()
            self._drop_manifest(digest)

    def drop_manifest_older(self, digest: Digest, before: float) -> bool:
        """Delete one that no tag names and nobody touched since; the caller holds the exclusive lock."""
        if self._manifest_path(digest).stat().st_ctime > before:
            return False
        self._drop_manifest(digest)
        return True

    def drop_blobs_older(self, unneeded: Callable[[Digest], bool], before: float) -> tuple[int, int]:
        """Delete blobs that nobody touched since: how many, and bytes freed; the caller holds the exclusive lock."""
        count = size = 0
        for name in _names(self._blobs):
            path, shared = self._blobs / name, self._shared / name
            state = path.stat()
            if state.st_ctime > before or not unneeded(Digest(f"sha256:{name}")):
                continue
            if state.st_nlink == 2 and (other := state_of(shared)) is not None and os.path.samestat(state, other):
                shared.unlink(missing_ok=True)
            path.unlink()
            count, size = count + 1, size + (state.st_size if state.st_nlink <= 2 else 0)
        return count, size

    def digests(self) -> list[Digest]:
        """The digests of all manifests, sorted."""
        return [Digest(f"sha256:{name}") for name in _names(self._manifests)]

    def referenced(self) -> set[Digest]:
        """All that the manifests point to."""
        found: set[Digest] = set()
        for digest in self.digests():
            found.update(child.digest for child in manifests.children(manifests.decode(self.read_manifest(digest))))
        return found

    def _drop_manifest(self, digest: Digest) -> None:
        subject = manifests.decode(self.read_manifest(digest)).subject
        if subject is not None:
            (self._mark(subject.digest, digest)).unlink(missing_ok=True)
        self._manifest_path(digest).unlink()

    # Tags and referrers

    def tags(self) -> list[str]:
        """All tags, sorted."""
        return _names(self._tags)

    def delete_tag(self, tag: str) -> None:
        """Raises NotFound, Invalid."""
        reference.check_tag(tag)
        with self.locked(exclusive=True):
            try:
                (self._tags / tag).unlink()
            except FileNotFoundError:
                raise NotFound(f"{self.name} has no tag {tag}", reason="ImageNotFound") from None

    def referrers(self, subject: Digest) -> list[Descriptor]:
        """What refers to `subject`, sorted by digest."""
        return [
            _referrer(self.read_manifest(f"sha256:{name}"))
            for name in _names(self._referrers / digests.hexadecimal(subject))
            if (self._manifests / name).is_file()
        ]

    # Inside

    @contextmanager
    def locked(self, *, exclusive: bool = False) -> Iterator[None]:
        """Keep those who delete away from those who write. Raises NotFound if nothing was ever written here."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotFound(f"there is no repository {self.name}", reason="RepositoryNotFound") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        if self._lock.exists():
            return
        for folder in (self._blobs, self._tags, self._referrers, self._manifests):
            make_folders(folder)
        os.close(os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def _manifest_path(self, digest: Digest) -> Path:
        return self._manifests / digests.hexadecimal(digest)

    def _place(self, blobs: NewBlobs) -> None:
        """Give flushed files their names, or take the same content from another repository."""
        for file, digest in blobs:
            if self.blob_path(digest).exists() or self._linked(self._shared / digests.hexadecimal(digest), digest):
                file.discard()
            else:
                publish(file.path, self.blob_path(digest))
                with suppress(OSError):  # sharing saves room; a repository does not depend on it
                    os.link(self.blob_path(digest), self._shared / digests.hexadecimal(digest))
        sync_path(self._blobs)

    def _linked(self, origin: Path, digest: Digest) -> bool:
        try:
            link(origin, self.blob_path(digest))
        except FileExistsError:
            pass
        except FileNotFoundError:
            return False
        return True

    def _stage_manifests(self, new: Sequence[Manifest], stack: ExitStack) -> list[tuple[Staged, Digest]]:
        files = []
        for manifest in new:
            if self._manifest_path(manifest.digest).exists():
                os.utime(self._manifest_path(manifest.digest))
                continue
            file = stack.enter_context(self.staging.new())
            stack.callback(file.discard)
            file.append([manifest.data])
            if file.digest() != manifest.digest:
                raise Mismatch(
                    f"the manifest's bytes are {file.digest()}, not {manifest.digest}", reason="DigestMismatch"
                )
            files.append((file, manifest.digest))
        return files

    def _check_children(
        self, decoded: Sequence[manifests.Index | manifests.ImageManifest], blobs: dict[Digest, int], new: set[Digest]
    ) -> None:
        for child in (child for content in decoded for child in manifests.children(content)):
            if child.media_type in media.INDEXES | media.MANIFESTS:
                if child.digest not in new and not self._manifest_path(child.digest).exists():
                    raise NotFound(
                        f"{self.name} has no manifest {child.digest}: push it first", reason="ManifestChildUnknown"
                    )
                continue
            size = blobs.get(child.digest)
            if size is None:
                size = self._blob_size(child.digest)
            if size != child.size:
                raise Mismatch(
                    f"{child.digest} has {size} bytes, the manifest says {child.size}", reason="SizeMismatch"
                )

    def _blob_size(self, digest: Digest) -> int:
        try:
            return self.blob_path(digest).stat().st_size
        except FileNotFoundError:
            raise NotFound(f"{self.name} has no blob {digest}: push it first", reason="ManifestBlobUnknown") from None

    def _mark(self, subject: Digest, digest: Digest) -> Path:
        return self._referrers / digests.hexadecimal(subject) / digests.hexadecimal(digest)

    def _refer(self, subject: Digest, digest: Digest) -> None:
        path = self._mark(subject, digest)
        make_folders(path.parent)
        path.touch()
        sync_path(path.parent)

    def _tag(self, digest: Digest, tag: str, *, move: bool) -> None:
        source, target = self._manifest_path(digest), self._tags / tag
        try:
            link(source, target)
        except FileExistsError:
            found = digests.of(target.read_bytes())
            if found != digest and not move:
                raise AlreadyExists(
                    f"the tag {tag} of {self.name} names {found}: tags are not moved, choose another",
                    reason="ImageTagTaken",
                ) from None
            if found != digest:
                self._move_tag(source, target)
        sync_path(self._tags)

    def _move_tag(self, source: Path, target: Path) -> None:
        temporary = self.staging.folder / secrets.token_hex(16)
        link(source, temporary)
        temporary.replace(target)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []


def _media_type(data: bytes) -> str:
    shape = msgspec.json.decode(data, type=_Shape)
    return shape.media_type or (media.MANIFEST if shape.manifests is msgspec.UNSET else media.INDEX)


def _referrer(manifest: Manifest) -> Descriptor:
    content = manifests.decode(manifest)
    kind = content.artifact_type
    if kind is None and isinstance(content, manifests.ImageManifest):
        kind = content.config.media_type
    return Descriptor(
        manifest.media_type,
        manifest.digest,
        len(manifest.data),
        annotations=content.annotations or {},
        artifact_type=kind,
    )
