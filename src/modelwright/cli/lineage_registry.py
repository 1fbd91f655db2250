"""Lineage from a registry alone: the statements of an image, and of those that it was made from.

Bases are looked for in the registry that was asked, and nowhere else: what a statement says is anybody's word,
and must not make us speak with hosts of its choice. By digest, an image that was copied is still the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelwright.cli.registry_options import RegistryOptions
from modelwright.lineage import attestation, attested, statement
from modelwright.lineage.attestation import Attestation
from modelwright.lineage.attested import Attested
from modelwright.lineage.nodes import Trace
from modelwright.ports.errors import Invalid, Mismatch, NotFound, Rejected
from modelwright.ports.workloads import Material

if TYPE_CHECKING:
    from modelwright.oci.session import Session
    from modelwright.ports.images import Digest, Images

MAX_IMAGES = 200
MAX_DEPTH = 32


def trace(word: str, options: RegistryOptions, depth: int = 0) -> Trace:
    """What the image `HOST/REPOSITORY@DIGEST` (or `:TAG`) was made from, as far as its registry knows.

    Raises Invalid, NotFound, Forbidden, Unavailable, Rejected.
    """
    from modelwright.oci.reference import parse

    reference = parse(word)
    with options.session(reference.host) as session:
        walk = _Walk(session, min(depth or MAX_DEPTH, MAX_DEPTH))
        root = walk.run(reference.repository, reference.target)
        return attested.trace(root, walk.images, walk.cut)


class _Walk:
    """Goes from image to image, level by level, and reads each once."""

    def __init__(self, session: Session, depth: int) -> None:
        self._session, self._depth = session, depth
        self.images: dict[str, Attested] = {}
        self.cut = 0

    def run(self, repository: str, target: str) -> str:
        """Read the first image, which must be there, and what it was made from; its digest."""
        images = self._repository(repository)
        found = images.resolve(target)
        if found is None:
            raise NotFound(f"{images.name} has no image {target}: check the spelling", reason="ImageNotFound")
        self.images[found.digest] = self._read(images, found.digest)
        level = self._bases(repository, found.digest)
        for _ in range(self._depth):
            level = [base for each in level for base in self._follow(*each)]
        self._leave_out(level)
        return found.digest

    def _follow(self, repository: str, base: Material) -> list[tuple[str, Material]]:
        """Read one base, wherever in this registry it is; its own bases."""
        if base.digest in self.images:
            return []
        if len(self.images) >= MAX_IMAGES:
            self._leave_out([(repository, base)])
            return []
        for name in dict.fromkeys((_path_of(base.uri), repository)):
            images = self._there(name, base.digest)
            if images is not None:
                self.images[base.digest] = self._read(images, base.digest)
                return self._bases(name, base.digest)
        note = f"not in the registry {self._session.host}"
        told = Attested(repository=base.uri or base.name, digest=base.digest, missing=True, notes=(note,))
        self.images[base.digest] = told
        return []

    def _leave_out(self, bases: list[tuple[str, Material]]) -> None:
        """Too far away, or too many: they may be there, and are not looked for."""
        for _, base in bases:
            if base.digest not in self.images:
                told = Attested(repository=base.uri or base.name, digest=base.digest, notes=("not followed",))
                self.images[base.digest] = told
                self.cut += 1

    def _there(self, repository: str, digest: str) -> Images | None:
        try:
            images = self._repository(repository)
            return images if images.resolve(digest) is not None else None
        except (Invalid, Mismatch, NotFound):
            return None

    def _repository(self, name: str) -> Images:
        from modelwright.oci.client import RegistryRepository
        from modelwright.oci.reference import split_name

        return RegistryRepository(self._session, split_name(f"{self._session.host}/{name}")[1])

    def _bases(self, repository: str, digest: str) -> list[tuple[str, Material]]:
        from modelwright.oci.digests import is_digest

        parents = (parent for each in self.images[digest].attestations for parent in each.parents)
        return [(repository, parent) for parent in parents if is_digest(parent.digest)]

    def _read(self, images: Images, digest: Digest | str) -> Attested:
        from modelwright.oci.digests import parse
        from modelwright.oci.referrers import attached

        found = attached(images, parse(digest), statement.MEDIA_TYPE, attestation.MAX_BYTES)
        told: list[Attestation] = []
        others, notes = found.others, [f"not shown: {why}" for why in found.refused]
        for document in dict.fromkeys(found.documents):
            try:
                if attestation.predicate_type(document) != statement.PREDICATE_TYPE:
                    others += 1
                    continue
                told.append(attestation.read(document, digest))
            except (Mismatch, Rejected) as error:
                notes.append(f"not shown: {error.message}")
        if not told:
            notes.insert(0, "no provenance is attached")
        if others:
            notes.append(f"{others} other artifact{'s' if others > 1 else ''} attached")
        return Attested(repository=images.name, digest=digest, attestations=tuple(told), notes=tuple(notes))


def _path_of(image: str) -> str:
    """The repository's path in `HOST/PATH`."""
    return image.partition("/")[2] or image
