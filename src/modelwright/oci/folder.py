"""Reading a model folder: regular files and folders only, nothing outside, no link ever followed.

Every file is opened from the folder's root, one component at a time, with O_NOFOLLOW,
and must still be what the walk saw: so a file swapped, rewritten or replaced by a link is noticed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from modelwright.oci.names import WHITEOUT, collision_key, decode_name, entry_parts, shown
from modelwright.oci.tree import Limits
from modelwright.ports.errors import Conflict, Forbidden, Invalid, ModelwrightError, NotFound, Rejected, Unavailable

PRIVATE = ".modelwright"
"""Metrics, progress and the like at the root of a model folder: never packed."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIMITS = Limits()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A file or folder below the root: its path (`/` between parts), and what it was when it was seen."""

    path: str
    directory: bool
    size: int = 0
    inode: int = 0
    modified: int = 0


class Folder(msgspec.Struct, frozen=True):
    """A folder to pack, or one file taken alone; `entries` are sorted by the bytes of their paths."""

    root: Path
    entries: tuple[Entry, ...]

    @property
    def files(self) -> tuple[Entry, ...]:
        """The regular files."""
        return tuple(entry for entry in self.entries if not entry.directory)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.entries)

    def open_file(self, entry: Entry) -> int:
        """A descriptor of the file, still the one that was seen. Raises Conflict (StorageChanged), Forbidden."""
        with reading(self.root / entry.path), _parent_of(self.root, entry.path) as (parent, name):
            descriptor = os.open(name, _FILE_FLAGS, dir_fd=parent)
        try:
            self.check(entry, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def check(self, entry: Entry, descriptor: int) -> None:
        """Raises Conflict (StorageChanged) unless the open file is what was seen in the walk."""
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or _stamp(found) != (entry.size, entry.inode, entry.modified):
            raise changed(self.root / entry.path)


def changed(path: Path) -> Conflict:
    """The error of a file that is not what it was."""
    return Conflict(
        f"{path} changed while it was being packed: build again when nothing writes to the model folder",
        reason="StorageChanged",
    )


def scan(path: Path) -> Folder:
    """What there is to pack in a folder (or a single file). The path itself may be a link; nothing in it may.

    Raises NotFound (StoragePathNotFound), Invalid (StorageEmpty), Forbidden (FileUnreadable),
    Rejected (StorageNotPlain) for links, sockets, devices and names that no image can hold.
    """
    root = _resolve(path)
    if root.is_file():
        return Folder(root.parent, (_entry(root.name, root.parent, root.lstat()),))
    with reading(root):
        device = root.stat().st_dev
        if not root.is_dir():
            raise _not_plain(root, "is neither a folder nor a file")
        descriptor = os.open(root, _FOLDER_FLAGS)
    try:
        entries = sorted(_limited(walk(descriptor, "", root, device), root), key=lambda entry: entry.path.encode())
    finally:
        os.close(descriptor)
    if all(entry.directory for entry in entries):
        raise Invalid(f"{root} holds no file: there is nothing to pack", reason="StorageEmpty")
    return Folder(root, tuple(entries))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what the operating system says about `path` into errors that say what to do."""
    try:
        yield
    except ModelwrightError:
        raise
    except OSError as error:
        raise _explained(error, path) from error


def _resolve(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(
            f"{path} does not exist: check the path and the machine it is on", reason="StoragePathNotFound"
        ) from error
    except (OSError, RuntimeError, ValueError) as error:
        raise Invalid(f"{path} cannot be followed to a folder: {error}", reason="StoragePathInvalid") from error


def _limited(entries: Iterator[Entry], root: Path) -> Iterator[Entry]:
    """What is packed must be unpacked again: the same limit holds for both."""
    for count, entry in enumerate(entries, start=1):
        if count > _LIMITS.entries:
            raise Rejected(f"{root} holds more than {_LIMITS.entries} files and folders", reason="StorageTooManyFiles")
        yield entry


def walk(descriptor: int, prefix: str, root: Path, device: int) -> Iterator[Entry]:
    """What is in an open folder, and below it on the same device, in no order; `prefix` is its path below the root."""
    with reading(root / prefix), os.scandir(descriptor) as found:
        children = [(child.name, child.stat(follow_symlinks=False)) for child in found]
    _refuse_collisions([name for name, _ in children], root / prefix)
    for name, status in children:
        if not prefix and name == PRIVATE:
            continue
        entry = _entry(prefix + name, root, status)
        yield entry
        if entry.directory:
            yield from _walk_below(descriptor, entry, root, device, status)


def _walk_below(parent: int, entry: Entry, root: Path, device: int, seen: os.stat_result) -> Iterator[Entry]:
    path = root / entry.path
    if seen.st_dev != device:
        raise _not_plain(path, "is on another file system, mounted there; pack it on its own")
    with reading(path):
        descriptor = os.open(path.name, _FOLDER_FLAGS, dir_fd=parent)
    try:
        if os.fstat(descriptor).st_ino != seen.st_ino:
            raise changed(path)
        yield from walk(descriptor, f"{entry.path}/", root, device)
    finally:
        os.close(descriptor)


def _entry(relative: str, root: Path, status: os.stat_result) -> Entry:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
    if kind is not None:
        raise _not_plain(root / relative, f"is {kind}; a model image holds regular files and folders only, {_CURE}")
    _check_name(relative, root)
    if stat.S_ISDIR(status.st_mode):
        return Entry(relative, directory=True)
    size, inode, modified = _stamp(status)
    return Entry(relative, directory=False, size=size, inode=inode, modified=modified)


_CURE = "so replace it by the file itself (cp -rL FOLDER COPY makes a copy without links) or remove it"
_KINDS: dict[int, str | None] = {
    stat.S_IFREG: None,
    stat.S_IFDIR: None,
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def _check_name(relative: str, root: Path) -> None:
    """Refuse here what no reader of the image would unpack."""
    try:
        parts = entry_parts(decode_name(os.fsencode(relative)))
    except Rejected as error:
        raise _not_plain(root / relative, f"cannot be packed, rename it: {error.message}") from error
    if parts[-1].startswith(WHITEOUT):
        raise _not_plain(root / relative, f"cannot be packed, rename it: {WHITEOUT} means deletion in an image")
    if len(parts) > _LIMITS.depth:
        raise _not_plain(root / relative, f"cannot be packed: it is nested deeper than {_LIMITS.depth} folders")


def _refuse_collisions(siblings: list[str], folder: Path) -> None:
    known: dict[str, str] = {}
    for name in sorted(siblings):
        other = known.setdefault(collision_key(name), name)
        if other != name:
            raise _not_plain(folder / name, f"and {shown(other)} are the same name on some file systems: rename one")


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_ino, status.st_mtime_ns


def _not_plain(path: Path, what: str) -> Rejected:
    return Rejected(f"{shown(str(path))} {what}", reason="StorageNotPlain")


@contextmanager
def _parent_of(root: Path, relative: str) -> Iterator[tuple[int, str]]:
    *folders, name = relative.split("/")
    descriptor = os.open(root, _FOLDER_FLAGS)
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)


def _explained(error: OSError, path: Path) -> ModelwrightError:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Forbidden(
            f"{path} cannot be read: give the user that builds the image permission to read it (chmod a+rX)",
            reason="FileUnreadable",
        )
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}:
        return changed(path)
    return Unavailable(f"{path} cannot be read: {error.strerror}; check the disk", reason="StorageUnreadable")
