"""Digests: the identity of content (OCI image-spec, descriptor.md). SHA-256 is the only algorithm taken."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Protocol

from modelwright.ports.errors import Invalid, Mismatch
from modelwright.ports.images import Descriptor, Digest


class Running(Protocol):
    """A running SHA-256: that of hashlib, or one that another thread works on."""

    def hexdigest(self) -> str: ...


CHUNK = 1024 * 1024
"""Bytes moved at a time: large enough that Python's part of the work is small."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def parse(text: str) -> Digest:
    """The digest that `text` spells. Raises Invalid."""
    if not _DIGEST.match(text):
        raise Invalid(
            f"{text[:100]!r} is not a digest: sha256: and 64 lower-case hexadecimal digits are expected",
            reason="InvalidDigest",
        )
    return Digest(text)


def is_digest(text: str) -> bool:
    """Whether `text` spells a digest that `parse` takes."""
    return _DIGEST.match(text) is not None


def hexadecimal(digest: Digest) -> str:
    """The 64 hexadecimal digits."""
    return digest.removeprefix("sha256:")


def of(data: bytes | bytearray | memoryview) -> Digest:
    """The digest of bytes in memory."""
    return finish(hashlib.sha256(data))


def finish(running: Running) -> Digest:
    """The digest that a running SHA-256 has come to."""
    return Digest(f"sha256:{running.hexdigest()}")


def of_stream(stream: BinaryIO, progress: Callable[[int], None] | None = None) -> tuple[Digest, int]:
    """The digest and length of what is left in a stream, in constant memory."""
    running, size = hashlib.sha256(), 0
    view = memoryview(bytearray(CHUNK))
    while count := stream.readinto(view):  # type: ignore[attr-defined]
        running.update(view[:count])
        size += count
        if progress is not None:
            progress(count)
    return finish(running), size


class Verifier:
    """Hashes what passes and says at the end whether it was what was promised."""

    def __init__(self, digest: Digest, size: int | None = None, *, what: str = "content") -> None:
        self._digest = digest
        self._size = size
        self._what = what
        self._running = hashlib.sha256()
        self.count = 0

    def update(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes. Raises Mismatch as soon as there are too many."""
        self._running.update(chunk)
        self.count += len(chunk)
        if self._size is not None and self.count > self._size:
            raise Mismatch(
                f"{self._what} {self._digest} is longer than the {self._size} bytes that its descriptor says",
                reason="SizeMismatch",
            )

    def check(self) -> None:
        """Raises Mismatch unless length and digest are right."""
        if self._size is not None and self.count != self._size:
            raise Mismatch(
                f"{self._what} {self._digest} has {self.count} bytes where its descriptor says {self._size}",
                reason="SizeMismatch",
            )
        found = finish(self._running)
        if found != self._digest:
            raise Mismatch(
                f"{self._what} should be {self._digest} but its bytes are {found}; do not use it",
                reason="DigestMismatch",
            )


def verified(
    chunks: Iterable[bytes], digest: Digest, size: int | None = None, *, what: str = "content"
) -> Iterator[bytes]:
    """The same chunks; raises Mismatch at the end if they were not what was promised."""
    verifier = Verifier(digest, size, what=what)
    for chunk in chunks:
        verifier.update(chunk)
        yield chunk
    verifier.check()


def verify(data: bytes, descriptor: Descriptor, *, what: str = "content") -> None:
    """Raises Mismatch unless `data` is what the descriptor promises."""
    for _ in verified((data,), descriptor.digest, descriptor.size, what=what):
        pass
