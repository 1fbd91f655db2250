"""What a model's folder held when it was verified, so that it can be verified again without its source."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from modelwright.oci.recorder import Written
from modelwright.ports.errors import Mismatch

_CHUNK = 1024 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class File(msgspec.Struct, frozen=True):
    """One regular file: its path below the folder, length and SHA-256."""

    path: str
    size: int
    sha256: str


class FolderManifest(msgspec.Struct, frozen=True):
    """All files, sorted by path; `digest` is that of the file which they were unpacked from, where there was one."""

    files: tuple[File, ...]
    digest: str = ""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def describe(folder: Path, digest: str = "", known: Mapping[str, Written] = MappingProxyType({})) -> FolderManifest:
    """Read all files but those that are `known`. Raises Mismatch for what is neither a file nor a folder."""
    return FolderManifest(tuple(_known(folder, path, known.get(path)) for path in _paths(folder)), digest)


def _known(folder: Path, path: str, written: Written | None) -> File:
    if written is not None and _length(folder / path) == written.size:
        return File(path, written.size, written.sha256)
    return _file(folder, path, lambda _count: None)


def _length(path: Path) -> int:
    """Of a regular file; -1 for anything else."""
    state = path.lstat()
    return state.st_size if stat.S_ISREG(state.st_mode) else -1


def verify(folder: Path, manifest: FolderManifest, moved: Callable[[int], None]) -> None:
    """Raises Mismatch (ModelChanged) unless the folder holds exactly this; `moved` is told of bytes read."""
    if _paths(folder) != [file.path for file in manifest.files]:
        raise Mismatch(f"{folder} does not hold the files that were put there", reason="ModelChanged")
    for expected in manifest.files:
        if _file(folder, expected.path, moved) != expected:
            raise Mismatch(f"{folder / expected.path} is not what was put there", reason="ModelChanged")


def _paths(folder: Path) -> list[str]:
    return sorted(_walk(folder, ""))


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(folder / entry.name, f"{prefix}{entry.name}/")
            else:
                yield f"{prefix}{entry.name}"


def _file(folder: Path, path: str, moved: Callable[[int], None]) -> File:
    try:
        descriptor = os.open(folder / path, _FLAGS)
    except OSError as error:
        raise Mismatch(f"{folder / path} cannot be read: {error.strerror}", reason="ModelChanged") from error
    digest, size = hashlib.sha256(), 0
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Mismatch(f"{folder / path} is no regular file", reason="ModelChanged")
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            moved(len(chunk))
    return File(path, size, digest.hexdigest())
