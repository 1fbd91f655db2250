"""A folder that is filled from an archive we do not trust.

Every component is opened relative to its parent's descriptor and never through a link, every file is created anew,
modes are fixed, and what is written is counted against limits before it is written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import msgspec

from modelwright.oci.disk import check_room, disk_errors
from modelwright.oci.names import collision_key, shown
from modelwright.oci.recorder import Recorder
from modelwright.ports.errors import Rejected

_CHUNK = 1 << 20
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Limits(msgspec.Struct, frozen=True):
    """What an archive may grow to.

    `ratio` and `slack`: expanded bytes may be `ratio` times the compressed bytes read so far, plus `slack` bytes.
    Trained weights compress to more than half of their size, so 100 refuses bombs only; a file that is nearly all
    zeros can exceed it and is then best sent uncompressed.
    """

    entries: int = 100_000
    size: int = 1 << 40
    depth: int = 32
    ratio: int = 100
    slack: int = 16 << 20


class Unpacked(msgspec.Struct, frozen=True):
    """What was written: files and folders in `entries`, bytes of files in `size`."""

    entries: int
    size: int


class _Node:
    """One name of a folder; `children` by collision key, None for a file."""

    __slots__ = ("children", "name")

    def __init__(self, name: str, children: dict[str, _Node] | None) -> None:
        self.name = name
        self.children = children


class SafeTree:
    """Writes files and folders below one folder, and nothing else anywhere.

    The folder is made (0700) if it is absent. `overwrite` lets a file replace a file, as a later layer may; `recorder`
    notes what each file is.
    """

    def __init__(
        self, destination: Path, limits: Limits, *, overwrite: bool = False, recorder: Recorder | None = None
    ) -> None:
        destination.mkdir(mode=0o700, exist_ok=True)
        self._limits = limits
        self._overwrite = overwrite
        self._recorder = recorder
        self._root = _Node("", {})
        self._open: list[tuple[str, int]] = [("", os.open(destination, _FOLDER_FLAGS))]
        self._entries = 0
        self._size = 0
        self._skipped = 0

    def __enter__(self) -> SafeTree:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close_below(0)

    @property
    def unpacked(self) -> Unpacked:
        """What was written so far."""
        return Unpacked(self._entries, self._size)

    def folder(self, parts: tuple[str, ...]) -> None:
        """Make a folder and those above it; one that is there already is left as it is."""
        with disk_errors():
            self._enter(parts)

    def file(self, parts: tuple[str, ...], size: int, read: Callable[[int], bytes]) -> None:
        """Write a new file of exactly `size` bytes, taken from `read(n)`, which returns 1 to n bytes."""
        if not parts:
            raise Rejected("an entry would replace the folder itself by a file", reason="ArchiveEscapes")
        self._count_bytes(parts, size)
        check_room(self._open[0][1], size)
        with disk_errors():
            parent = self._enter(parts[:-1])
            self._register(parts, folder=False)
            descriptor = self._create(parts, parent)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                os.fchmod(descriptor, 0o644)
                if self._recorder is None:
                    _copy(file.write, size, read)
                    return
                hashing = self._recorder.begin("/".join(parts), size)
                _copy(file.write, size, read, hashing.update)
                hashing.end()

    def adopt(self, parts: tuple[str, ...], size: int, source: Path) -> bool:
        """Move a file of ours to a new name at the root; False if it lies on another file system."""
        root = self._open[0][1]
        if source.stat().st_dev != os.fstat(root).st_dev or not stat.S_ISREG(source.lstat().st_mode):
            return False
        self._count_bytes(parts, size)
        self._register(parts, folder=False)
        os.close(self._create(parts, root))
        source.chmod(0o644)
        os.rename(source, parts[-1], dst_dir_fd=root)
        return True

    def _count_bytes(self, parts: tuple[str, ...], size: int) -> None:
        self._size += size
        if self._size > self._limits.size:
            raise Rejected(
                f"{shown('/'.join(parts))} brings the content over the limit of {self._limits.size} bytes",
                reason="ArchiveTooLarge",
            )

    def _create(self, parts: tuple[str, ...], parent: int) -> int:
        try:
            return os.open(parts[-1], _FILE_FLAGS, 0o600, dir_fd=parent)
        except FileExistsError:
            if not self._overwrite:
                raise _duplicate(parts) from None
        try:
            os.unlink(parts[-1], dir_fd=parent)
            return os.open(parts[-1], _FILE_FLAGS, 0o600, dir_fd=parent)
        except (IsADirectoryError, PermissionError):
            raise _duplicate(parts) from None

    def _enter(self, parts: tuple[str, ...]) -> int:
        """The descriptor of a folder, made if need be; the way to the last one stays open."""
        shared = 0
        for (name, _), part in zip(self._open[1:], parts, strict=False):
            if name != part:
                break
            shared += 1
        self._close_below(shared + 1)
        for depth in range(shared, len(parts)):
            self._register(parts[: depth + 1], folder=True)
            self._open.append((parts[depth], self._open_folder(parts[: depth + 1], self._open[-1][1])))
        return self._open[-1][1]

    def _open_folder(self, parts: tuple[str, ...], parent: int) -> int:
        made = False
        try:
            os.mkdir(parts[-1], 0o755, dir_fd=parent)
            made = True
        except FileExistsError:
            pass
        try:
            descriptor = os.open(parts[-1], _FOLDER_FLAGS, dir_fd=parent)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise _duplicate(parts) from None
            raise
        if made:
            os.fchmod(descriptor, 0o755)
        return descriptor

    def _register(self, parts: tuple[str, ...], *, folder: bool) -> None:
        """Remember the name, and refuse one that stands for another entry on some file system."""
        if len(parts) > self._limits.depth:
            raise Rejected(f"{shown('/'.join(parts))} is nested too deep", reason="ArchiveTooDeep")
        node = self._root
        for part in parts[:-1]:
            node = (node.children or {})[collision_key(part)]
        children = node.children if node.children is not None else {}
        key = collision_key(parts[-1])
        known = children.get(key)
        if known is None:
            self._count_entry()
            children[key] = _Node(parts[-1], {} if folder else None)
        elif known.name != parts[-1]:
            raise Rejected(
                f"{shown('/'.join(parts))} and {shown(known.name)} are the same name on some file systems: rename one",
                reason="ArchiveNamesCollide",
            )
        elif (known.children is not None) != folder or not (folder or self._overwrite):
            raise _duplicate(parts)

    def count_skipped(self) -> None:
        """Count an entry that is left out: they cost nothing but time, so ten times as many may stand there."""
        self._skipped += 1
        if self._skipped > 10 * self._limits.entries:
            raise Rejected("too many entries outside of the wanted folder", reason="ArchiveTooManyEntries")

    def _count_entry(self) -> None:
        self._entries += 1
        if self._entries > self._limits.entries:
            raise Rejected(f"more than {self._limits.entries} files and folders", reason="ArchiveTooManyEntries")

    def _close_below(self, keep: int) -> None:
        while len(self._open) > keep:
            os.close(self._open.pop()[1])


def _copy(
    write: Callable[[memoryview], int | None],
    size: int,
    read: Callable[[int], bytes],
    seen: Callable[[bytes], None] | None = None,
) -> None:
    left = size
    while left:
        chunk = read(min(left, _CHUNK))
        if not chunk:
            raise Rejected(f"the archive ends {left} bytes before the end of a file", reason="ArchiveTruncated")
        left -= len(chunk)
        if seen is not None:
            seen(chunk)
        view = memoryview(chunk)
        while view:
            view = view[write(view) or 0 :]


def _duplicate(parts: tuple[str, ...]) -> Rejected:
    return Rejected(f"{shown('/'.join(parts))} stands in the archive twice", reason="ArchiveHasDuplicates")
