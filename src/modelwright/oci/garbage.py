"""Garbage collection: what no manifest needs, and what killed processes left behind."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from modelwright.oci import manifests
from modelwright.oci.disk import state_of
from modelwright.oci.storage import ImageStorage
from modelwright.oci.stored import StoredRepository
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.images import Digest


class Collected(msgspec.Struct, frozen=True):
    """What was removed; `bytes` counts only what freed room on the disk."""

    blobs: int = 0
    manifests: int = 0
    uploads: int = 0
    bytes: int = 0


def collect_garbage(storage: ImageStorage, keep_grace_seconds: float, *, untagged: bool = False) -> Collected:
    """Remove blobs that no manifest needs and abandoned uploads, if nothing touched them for the time of grace.

    An upload that is being written is never removed, however slow; the grace (hours, or a day) is for the time between
    a blob and its manifest. What refers to an image that is gone goes as well, unless a tag names it, and stays as
    long as the image does. `untagged` also removes manifests that no tag, index or subject reaches.
    Manifests that cannot be read make their repository be left alone. Safe beside any number of writers.
    """
    blobs = stale = freed = 0
    for name in sorted(storage.all_names()):
        before = time.time() - keep_grace_seconds
        removed = _collect_repository(storage.repository(name), before, untagged=untagged)
        blobs, stale, freed = blobs + removed[0], stale + removed[1], freed + removed[2]
    uploads, upload_bytes = storage.staging.sweep(time.time() - keep_grace_seconds)
    shared_bytes = _collect_shared(storage.blobs, time.time() - keep_grace_seconds)
    return Collected(blobs, stale, uploads, freed + upload_bytes + shared_bytes)


def _collect_repository(repository: StoredRepository, before: float, *, untagged: bool) -> tuple[int, int, int]:
    with repository.locked(exclusive=True):
        try:
            stale = _unreachable(repository) if untagged else _widowed(repository)
            removed = [digest for digest in stale if repository.drop_manifest_older(digest, before)]
            needed = repository.referenced()
        except ModelwrightError:
            return 0, 0, 0
        count, freed = repository.drop_blobs_older(lambda digest: digest not in needed, before)
        return count, len(removed), freed


def _unreachable(repository: StoredRepository) -> list[Digest]:
    """Manifests that neither a tag reaches, nor an index or subject that a tag reaches."""
    reached: set[Digest] = set()
    waiting = [repository.read_manifest(tag).digest for tag in repository.tags()]
    known = set(repository.digests())
    while waiting:
        digest = waiting.pop()
        if digest in reached or digest not in known:
            continue
        reached.add(digest)
        content = manifests.decode(repository.read_manifest(digest))
        waiting += [child.digest for child in manifests.children(content)]
        waiting += [referrer.digest for referrer in repository.referrers(digest)]
    return sorted(known - reached)


def _widowed(repository: StoredRepository) -> list[Digest]:
    """What refers to a manifest that is gone, and to that in turn; what has a tag or an index stays."""
    waiting = [digest for referring in repository.widowed().values() for digest in referring]
    kept = _held(repository) if waiting else set()
    gone: set[Digest] = set()
    while waiting:
        digest = waiting.pop()
        if digest not in kept | gone:
            gone.add(digest)
            waiting += repository.referring(digest)
    return sorted(gone)


def _held(repository: StoredRepository) -> set[Digest]:
    """Manifests that a tag names or an index lists."""
    held = {repository.read_manifest(tag).digest for tag in repository.tags()}
    for digest in repository.digests():
        content = manifests.decode(repository.read_manifest(digest))
        if isinstance(content, manifests.Index):
            held.update(child.digest for child in content.manifests)
    return held


def _collect_shared(folder: Path, before: float) -> int:
    """Blobs that no repository has any more. A link made meanwhile keeps the content, so this races with nobody."""
    freed = 0
    for path in sorted(folder.iterdir()):
        state = state_of(path)
        if state is not None and state.st_nlink == 1 and state.st_ctime <= before:
            path.unlink(missing_ok=True)
            freed += state.st_size
    return freed
