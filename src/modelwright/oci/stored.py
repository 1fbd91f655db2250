"""One repository on disk: its blobs, manifests, tags and referrers. `storage` draws the layout."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from modelwright.oci import digests, manifests, media, reference
from modelwright.oci.disk import state_of, sync_path
from modelwright.oci.layout import Layout, names
from modelwright.oci.staging import Staging
from modelwright.oci.writer import NewBlobs, Writer
from modelwright.ports.errors import Mismatch, NotFound, Rejected
from modelwright.ports.images import Descriptor, Digest, Manifest

_FRESH = 600.0
"""Seconds in which a blob that was asked for need not be marked again as in use."""


class _Shape(msgspec.Struct, rename="camel"):
    media_type: str = ""
    manifests: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_SHAPE = msgspec.json.Decoder(_Shape)  # here, for the reason in `manifests`


class StoredRepository:
    """What `LocalRepository` and the registry's server share."""

    def __init__(self, name: str, folder: Path, shared: Path, staging: Staging) -> None:
        self.name = name
        self.staging = staging
        self._at = Layout(name, folder, shared)
        self._writer = Writer(self._at, staging)

    # Blobs

    def blob_path(self, digest: Digest) -> Path:
        """Where a blob lies, or would."""
        return self._at.blob(digest)

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
        self._writer.add_blobs(blobs)

    def adopt_blob(self, digest: Digest, source: StoredRepository | None = None) -> bool:
        """Take a blob that another repository (any, if none is named) has; False if there is none."""
        return self._writer.adopt_blob(digest, source.blob_path(digest) if source else self._at.shared(digest))

    def delete_blob(self, digest: Digest) -> None:
        """Raises NotFound, or Rejected (StillReferenced) while a manifest needs it."""
        with self.locked(exclusive=True):
            if digest in self.referenced():
                raise Rejected(f"a manifest of {self.name} needs {digest}: delete it first", reason="StillReferenced")
            try:
                self._at.blob(digest).unlink()
            except FileNotFoundError:
                raise NotFound(f"{self.name} has no blob {digest}", reason="BlobNotFound") from None
            sync_path(self._at.blobs)

    # Manifests

    def read_manifest(self, wanted: str) -> Manifest:
        """The manifest of a tag or digest, checked. Raises NotFound, Mismatch, Invalid."""
        if ":" in wanted:
            path = self._at.manifest(digests.parse(wanted))
        else:
            reference.check_tag(wanted)
            path = self._at.tags / wanted
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{self.name} has no manifest {wanted}", reason="ImageNotFound") from None
        digest = digests.of(data)
        if not self._at.manifest(digest).is_file() or (":" in wanted and digest != wanted):
            raise Mismatch(f"the stored manifest {wanted} is damaged: push it again", reason="DigestMismatch")
        return Manifest(_media_type(data), digest, data)

    def put_manifest(self, manifest: Manifest, tag: str | None = None, *, move: bool = False) -> None:
        """As `commit` for one manifest whose parts are there."""
        self._writer.commit((), (manifest,), tag, move=move)

    def commit(self, blobs: NewBlobs, new: tuple[Manifest, ...], tag: str | None = None) -> None:
        """Store blobs and manifests together, and tag the last: see `Writer.commit`."""
        self._writer.commit(blobs, new, tag)

    def delete_manifest(self, digest: Digest) -> None:
        """Delete it and its tags. Raises NotFound, or Rejected (StillReferenced) while an index lists it."""
        with self.locked(exclusive=True):
            self.read_manifest(digest)
            if digest in self.referenced():
                raise Rejected(f"an index of {self.name} lists {digest}: delete it first", reason="StillReferenced")
            for tag in self.tags():
                if digests.of((self._at.tags / tag).read_bytes()) == digest:
                    (self._at.tags / tag).unlink()
            sync_path(self._at.tags)
            self._drop_manifest(digest)

    def drop_manifest_older(self, digest: Digest, before: float) -> bool:
        """Delete one that no tag names and nobody touched since; the caller holds the exclusive lock."""
        if self._at.manifest(digest).stat().st_ctime > before:
            return False
        self._drop_manifest(digest)
        return True

    def drop_blobs_older(self, unneeded: Callable[[Digest], bool], before: float) -> tuple[int, int]:
        """Delete blobs that nobody touched since: how many, and bytes freed; the caller holds the exclusive lock."""
        count = size = 0
        for name in names(self._at.blobs):
            digest = Digest(f"sha256:{name}")
            path, shared = self._at.blob(digest), self._at.shared(digest)
            state = path.stat()
            if state.st_ctime > before or not unneeded(digest):
                continue
            if state.st_nlink == 2 and (other := state_of(shared)) is not None and os.path.samestat(state, other):
                shared.unlink(missing_ok=True)
            path.unlink()
            count, size = count + 1, size + (state.st_size if state.st_nlink <= 2 else 0)
        return count, size

    def digests(self) -> list[Digest]:
        """The digests of all manifests, sorted."""
        return [Digest(f"sha256:{name}") for name in names(self._at.manifests)]

    def referenced(self) -> set[Digest]:
        """All that the manifests point to."""
        found: set[Digest] = set()
        for digest in self.digests():
            found.update(child.digest for child in manifests.children(manifests.decode(self.read_manifest(digest))))
        return found

    def _drop_manifest(self, digest: Digest) -> None:
        subject = manifests.decode(self.read_manifest(digest)).subject
        if subject is not None:
            self._at.mark(subject.digest, digest).unlink(missing_ok=True)
        self._at.manifest(digest).unlink()
        sync_path(self._at.manifests)

    # Tags and referrers

    def tags(self) -> list[str]:
        """All tags, sorted."""
        return names(self._at.tags)

    def delete_tag(self, tag: str) -> None:
        """Raises NotFound, Invalid."""
        reference.check_tag(tag)
        with self.locked(exclusive=True):
            try:
                (self._at.tags / tag).unlink()
            except FileNotFoundError:
                raise NotFound(f"{self.name} has no tag {tag}", reason="ImageNotFound") from None
            sync_path(self._at.tags)

    def referrers(self, subject: Digest) -> list[Descriptor]:
        """What refers to `subject`, sorted by digest."""
        return [_referrer(self.read_manifest(digest)) for digest in self.referring(subject)]

    def widowed(self) -> dict[Digest, list[Digest]]:
        """What refers to a manifest that is not there, by that manifest; no manifest is read for it."""
        known = set(self.digests())
        subjects = [Digest(f"sha256:{name}") for name in names(self._at.referrers)]
        found = {subject: self.referring(subject) for subject in subjects if subject not in known}
        return {subject: referring for subject, referring in found.items() if referring}

    def referring(self, subject: Digest) -> list[Digest]:
        """The digests of what refers to `subject`, sorted."""
        marks = names(self._at.referrers / digests.hexadecimal(subject))
        return [Digest(f"sha256:{name}") for name in marks if (self._at.manifests / name).is_file()]

    def locked(self, *, exclusive: bool = False) -> AbstractContextManager[None]:
        """Keep those who delete away from those who write. Raises NotFound if nothing was ever written here."""
        return self._at.locked(exclusive=exclusive)


def _media_type(data: bytes) -> str:
    shape = _SHAPE.decode(data)
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
