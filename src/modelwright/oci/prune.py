"""Removing tags of a repository, and the manifests that no other tag needs.

Images carry no time (the same content is the same image), so age cannot tell which to keep: names do.
Registries free the space of blobs in their own garbage collection.
"""

from __future__ import annotations

import fnmatch
from typing import Protocol

import msgspec

from modelwright.oci import digests, manifests
from modelwright.ports.errors import NotFound
from modelwright.ports.images import Digest, Images


class Deletable(Images, Protocol):
    """A repository that also deletes."""

    def delete_manifest(self, reference: str) -> bool:
        """Delete a manifest by digest, or a tag alone; False if there was none, or tags alone cannot be deleted."""
        ...


class Prune(msgspec.Struct, frozen=True):
    """What to remove: tags that go with their manifests, tags whose manifest other tags keep, and those manifests."""

    tags: tuple[str, ...]
    shared_tags: tuple[str, ...]
    manifests: tuple[Digest, ...]


def plan(images: Images, keep: tuple[str, ...]) -> Prune:
    """What a prune would remove: each tag that matches none of the shell patterns `keep`.

    Raises what reading raises: if one kept image cannot be read, nothing is planned, since it might need the others.
    """
    tags = [tag for tag in images.tags() if not _is_referrers_tag(tag)]
    kept = [tag for tag in tags if any(fnmatch.fnmatchcase(tag, pattern) for pattern in keep)]
    needed = {digest for tag in kept for digest in _reach(images, tag)}
    tops = {tag: found.digest for tag in tags if tag not in kept and (found := images.resolve(tag)) is not None}
    doomed = {digest for tag in tops for digest in _reach(images, tag)} - needed
    doomed |= _attached(images, doomed) - needed
    return Prune(
        tuple(tag for tag, top in tops.items() if top in doomed),
        tuple(tag for tag, top in tops.items() if top not in doomed),
        (*dict.fromkeys(top for top in tops.values() if top in doomed), *sorted(doomed - set(tops.values()))),
    )


def carry_out(images: Deletable, planned: Prune) -> tuple[str, ...]:
    """Remove it; returned are the tags that stay because the registry deletes no tag without its manifest.

    Raises Invalid (DeletionNotSupported) if the registry deletes nothing, Forbidden, Unavailable.
    """
    remaining = tuple(tag for tag in planned.shared_tags if not images.delete_manifest(tag))
    for digest in planned.manifests:
        images.delete_manifest(digest)
    return remaining


def _reach(images: Images, reference: str) -> set[Digest]:
    """The manifest of a reference and those below it; children that are missing are no obstacle."""
    manifest = images.read_manifest(reference)
    content = manifests.decode(manifest)
    found = {manifest.digest}
    if isinstance(content, manifests.Index):
        for child in content.manifests:
            try:
                found |= _reach(images, child.digest)
            except NotFound:
                continue
    return found


def _attached(images: Images, subjects: set[Digest]) -> set[Digest]:
    """What refers to these manifests, and what refers to that in turn, such as the signature of a statement."""
    found: set[Digest] = set()
    waiting = sorted(subjects)
    while waiting:
        new = _referring(images, waiting.pop()) - found
        found |= new
        waiting += sorted(new)
    return found


def _referring(images: Images, digest: Digest) -> set[Digest]:
    """What refers to a manifest, and the list of it under a tag, where the registry needs one."""
    listed = images.resolve(digest.replace(":", "-"))
    return {one.digest for one in images.referrers(digest)} | ({listed.digest} if listed is not None else set())


def _is_referrers_tag(tag: str) -> bool:
    """Tags of the form `sha256-HEX` list referrers where a registry cannot, and belong to their subjects."""
    return digests.is_digest(tag.replace("-", ":", 1))
