"""Images: one repository of OCI content, wherever it is kept.

A repository holds blobs and manifests by digest, and tags that name manifests.
It is read and written synchronously, from worker threads or processes: moving bytes is blocking work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, NewType, Protocol

import msgspec

Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hexadecimal digits; made by `modelwright.oci.digests` alone."""

Progress = Callable[[int], None]
"""Called with the number of bytes that have just been moved."""


class Descriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What points to content: OCI image-spec, descriptor.md."""

    media_type: str
    digest: Digest
    size: int
    annotations: dict[str, str] = {}
    platform: dict[str, str] | None = None
    artifact_type: str | None = None


class Manifest(msgspec.Struct, frozen=True):
    """A manifest or index as its exact bytes, since its digest is over them."""

    media_type: str
    digest: Digest
    data: bytes


class Content(Protocol):
    """Bytes of a known digest and length that can be produced more than once."""

    @property
    def digest(self) -> Digest: ...

    @property
    def size(self) -> int: ...

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The bytes from the start; every call yields the same."""
        ...


class Images(Protocol):
    """One repository. Errors are those of `ports.errors`; a missing thing is NotFound, or None where it says so."""

    @property
    def name(self) -> str:
        """`host/repository`, as messages and references spell it."""
        ...

    def resolve(self, reference: str) -> Descriptor | None:
        """What a tag or digest names, or None."""
        ...

    def read_manifest(self, reference: str) -> Manifest:
        """The manifest of a tag or digest, checked against its digest. Raises NotFound, Mismatch."""
        ...

    def write_manifest(self, manifest: Manifest, tag: str | None = None) -> None:
        """Store a manifest whose blobs are there, and tag it.

        A tag that exists is never moved: AlreadyExists with reason ImageTagTaken if it names other content.
        """
        ...

    def has_blob(self, digest: Digest) -> bool:
        """Whether the repository has this blob."""
        ...

    def read_blob(self, digest: Digest, offset: int = 0) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes from `offset` on, in chunks, not checked: the reader hashes. Raises NotFound."""
        ...

    def write_blob(self, content: Content, *, sources: tuple[str, ...] = (), progress: Progress | None = None) -> None:
        """Store a blob unless it is there; `sources` are repositories of the same host to mount it from.

        What was stored is checked: Mismatch if the other side reports another digest.
        """
        ...

    def tags(self) -> list[str]:
        """All tags, sorted."""
        ...

    def referrers(self, digest: Digest) -> list[Descriptor]:
        """What refers to this manifest by its `subject`."""
        ...
