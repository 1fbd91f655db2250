"""Writing into a repository on disk: content first, flushed, then its name, and the tag last."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from modelwright.oci import digests, manifests, media, reference
from modelwright.oci.disk import disk_errors, link, make_folders, publish, sync_all, sync_path
from modelwright.oci.layout import Layout
from modelwright.oci.staging import Staged, Staging
from modelwright.ports.errors import AlreadyExists, Mismatch, NotFound
from modelwright.ports.images import Digest, Manifest

NewBlobs = Sequence[tuple[Staged, Digest]]
"""Files that were written and hashed, and their digests."""


class Writer:
    """What only adds to a repository, and needs no more than its shared lock."""

    def __init__(self, layout: Layout, staging: Staging) -> None:
        self._at = layout
        self._staging = staging

    def add_blobs(self, blobs: NewBlobs) -> None:
        """Take in new blobs, flushed; their files are gone from the staging folder. Raises Unavailable (DiskFull)."""
        with disk_errors():
            self._at.make()
            sync_all([file.descriptor for file, _ in blobs])
            self._place(blobs)

    def adopt_blob(self, digest: Digest, origin: Path) -> bool:
        """Take a blob that lies elsewhere in the storage; False if it does not."""
        if not origin.is_file():
            return False
        with disk_errors():
            self._at.make()
            with self._at.locked():
                found = self._linked(origin, digest)
            sync_path(self._at.blobs)
        return found

    def commit(self, blobs: NewBlobs, new: Sequence[Manifest], tag: str | None = None, *, move: bool = False) -> None:
        """Store blobs and manifests, children first, and tag the last; all is on the disk when this returns.

        Raises Rejected, Mismatch or Invalid for what is no manifest, NotFound (ManifestBlobUnknown,
        ManifestChildUnknown) for a missing part, AlreadyExists (ImageTagTaken) for a tag of other content
        unless `move`, Unavailable (DiskFull).
        """
        reference.check_tag(tag)
        decoded = [manifests.decode(manifest) for manifest in new]
        with disk_errors():
            self._at.make()
            with self._at.locked(), ExitStack() as stack:
                self._check_children(decoded, {digest: file.size for file, digest in blobs}, {m.digest for m in new})
                files = self._stage_manifests(new, stack)
                sync_all([file.descriptor for file, _ in (*blobs, *files)])
                self._place(blobs)
                for file, digest in files:
                    publish(file.path, self._at.manifest(digest))
                sync_path(self._at.manifests)
                for manifest, content in zip(new, decoded, strict=True):
                    if content.subject is not None:
                        self._refer(content.subject.digest, manifest.digest)
                if tag is not None:
                    self._tag(new[-1].digest, tag, move=move)

    def _place(self, blobs: NewBlobs) -> None:
        """Give flushed files their names, or take the same content from another repository."""
        for file, digest in blobs:
            if self._at.blob(digest).exists() or self._linked(self._at.shared(digest), digest):
                file.discard()
            else:
                publish(file.path, self._at.blob(digest))
                with suppress(OSError):  # sharing saves room; a repository does not depend on it
                    os.link(self._at.blob(digest), self._at.shared(digest))
        sync_path(self._at.blobs)

    def _linked(self, origin: Path, digest: Digest) -> bool:
        try:
            link(origin, self._at.blob(digest))
        except FileExistsError:
            pass
        except FileNotFoundError:
            return False
        return True

    def _stage_manifests(self, new: Sequence[Manifest], stack: ExitStack) -> list[tuple[Staged, Digest]]:
        files = []
        for manifest in new:
            if self._at.manifest(manifest.digest).exists():
                os.utime(self._at.manifest(manifest.digest))
                continue
            file = stack.enter_context(self._staging.new())
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
                if child.digest not in new and not self._at.manifest(child.digest).exists():
                    raise NotFound(
                        f"{self._at.name} has no manifest {child.digest}: push it first", reason="ManifestChildUnknown"
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
            return self._at.blob(digest).stat().st_size
        except FileNotFoundError:
            raise NotFound(
                f"{self._at.name} has no blob {digest}: push it first", reason="ManifestBlobUnknown"
            ) from None

    def _refer(self, subject: Digest, digest: Digest) -> None:
        path = self._at.mark(subject, digest)
        make_folders(path.parent)
        path.touch()
        sync_path(path.parent)

    def _tag(self, digest: Digest, tag: str, *, move: bool) -> None:
        source, target = self._at.manifest(digest), self._at.tags / tag
        try:
            link(source, target)
        except FileExistsError:
            found = digests.of(target.read_bytes())
            if found != digest and not move:
                raise AlreadyExists(
                    f"the tag {tag} of {self._at.name} names {found}: tags are not moved, choose another",
                    reason="ImageTagTaken",
                ) from None
            if found != digest:
                self._move_tag(source, target)
        sync_path(self._at.tags)

    def _move_tag(self, source: Path, target: Path) -> None:
        temporary = self._staging.folder / secrets.token_hex(16)
        link(source, temporary)
        temporary.replace(target)
