"""Which file goes into which layer, and the bytes of a layer, streamed from the files as often as asked for.

A large file has a layer of its own, so that a version that changes one file uploads one layer.
Small files share layers; more files than layers are spread over a fixed number of groups by the hash of their path,
so that a file added or changed touches its own group only. Every layer holds the folders above its files.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from modelwright.oci import digests, media, tarheader
from modelwright.oci.folder import Entry, Folder, changed, reading
from modelwright.ports.images import Descriptor, Digest

MAX_LAYERS = 100
LARGE = 8 * 1024 * 1024
"""Files of at least this many bytes have a layer of their own, as long as there are not too many of them."""
GROUP = 256 * 1024 * 1024
"""About how many bytes of small files share a layer."""
_MAX_GROUPS = 64


ROOT_HEADER = tarheader.folder_header(media.MODEL_FOLDER)
"""What every layer begins with that is made here."""


class LayerPlan(msgspec.Struct, frozen=True):
    """A layer to be: its entries in order (bytes of their paths), and the file that it is for, if only one."""

    folder: Folder
    entries: tuple[Entry, ...]
    file: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the tar, known without reading a file."""
        return sum(len(_header(entry)) + entry.size + tarheader.padding(entry.size) for entry in self.entries) + len(
            tarheader.END
        )

    def open(self) -> BinaryIO:
        """The tar from its start. Reading raises Conflict (StorageChanged) if a file is not what it was."""
        return cast("BinaryIO", LayerReader(self))

    def hashed(self, progress: Callable[[int], None] | None = None) -> Layer:
        """Read everything once, for the digest. Raises what reading raises."""
        with self.open() as stream:
            digest, size = digests.of_stream(stream, progress)
        return Layer(self, digest, size)


class Layer(msgspec.Struct, frozen=True):
    """A layer of known digest: a `Content` whose bytes stay in the model folder."""

    plan: LayerPlan
    digest: Digest
    size: int

    def open(self) -> BinaryIO:
        """The tar from its start."""
        return self.plan.open()

    @property
    def descriptor(self) -> Descriptor:
        """What a manifest says of it; a layer for one file names the file."""
        annotations = {media.FILE_PATH: self.plan.file} if self.plan.file else {}
        return Descriptor(media.LAYER, self.digest, self.size, annotations)


def plan(folder: Folder) -> tuple[LayerPlan, ...]:
    """The layers of a folder: at most MAX_LAYERS, the same for the same paths and sizes."""
    large, small = _split(folder.files)
    groups = _grouped(small)
    leaves = _empty_folders(folder)
    if leaves:
        groups.setdefault(0, []).extend(leaves)
    shared = [LayerPlan(folder, _with_folders(groups[number])) for number in sorted(groups)]
    return (*shared, *(LayerPlan(folder, _with_folders([file]), file.path) for file in large))


def head_of(path: str, size: int) -> bytes:
    """What stands before the content of the one file in a layer that is made for it."""
    return b"".join(map(_header, _with_folders((Entry(path, directory=False, size=size),))))


def _split(files: tuple[Entry, ...]) -> tuple[list[Entry], list[Entry]]:
    """Files that have their own layer, and the others. The limit doubles until the layers suffice."""
    limit = LARGE
    while True:
        large = [file for file in files if file.size >= limit]
        small = [file for file in files if file.size < limit]
        if len(large) + max(1, _group_count(small)) <= MAX_LAYERS:
            return large, small
        limit *= 2


def _group_count(files: list[Entry]) -> int:
    """A power of two, so that growth rarely moves files from one group to another."""
    wanted = sum(file.size for file in files) // GROUP
    return min(_MAX_GROUPS, 1 << wanted.bit_length()) if files else 0


def _grouped(files: list[Entry]) -> dict[int, list[Entry]]:
    count = _group_count(files)
    groups: dict[int, list[Entry]] = {}
    for file in files:
        number = hashlib.sha256(file.path.encode()).digest()[0] % count
        groups.setdefault(number, []).append(file)
    return groups


def _empty_folders(folder: Folder) -> list[Entry]:
    above = {parent for entry in folder.entries for parent in _parents(entry.path)}
    return [entry for entry in folder.entries if entry.directory and entry.path not in above]


def _with_folders(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    chosen = {entry.path: entry for entry in entries}
    for parent in [parent for path in chosen for parent in _parents(path)]:
        chosen.setdefault(parent, Entry(parent, directory=True))
    ordered = sorted(chosen.values(), key=lambda entry: entry.path.encode())
    return (Entry("", directory=True), *ordered)


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _header(entry: Entry) -> bytes:
    path = f"{media.MODEL_FOLDER}/{entry.path}" if entry.path else media.MODEL_FOLDER
    return tarheader.folder_header(path) if entry.directory else tarheader.file_header(path, entry.size)


class _Bytes:
    """A part of a layer that is in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = memoryview(data)

    def readinto(self, view: memoryview) -> int:
        count = min(len(view), len(self._data))
        view[:count] = self._data[:count]
        self._data = self._data[count:]
        return count

    def skip(self, count: int) -> None:
        self._data = self._data[count:]

    def close(self) -> None:
        """Nothing is open."""


class _File:
    """A part of a layer that is a file on disk."""

    def __init__(self, folder: Folder, entry: Entry) -> None:
        self.size = entry.size
        self._folder, self._entry, self._position = folder, entry, 0
        self._file: io.FileIO | None = None

    def readinto(self, view: memoryview) -> int:
        file = self._opened()
        with reading(self._path):
            count = file.readinto(view[: self.left])
        return self._advanced(count, file)

    def read(self, count: int) -> bytes:
        file = self._opened()
        with reading(self._path):
            data = file.read(count)
        self._advanced(len(data), file)
        return data

    def skip(self, count: int) -> None:
        self._position += count
        self._opened().seek(self._position)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def left(self) -> int:
        """Bytes that have not been read."""
        return self.size - self._position

    @property
    def _path(self) -> Path:
        return self._folder.root / self._entry.path

    def _opened(self) -> io.FileIO:
        if self._file is None:
            self._file = io.FileIO(self._folder.open_file(self._entry), "rb")
        return self._file

    def _advanced(self, count: int, file: io.FileIO) -> int:
        """Count what was read; a file must neither end early nor be another one at its end."""
        self._position += count
        if count == 0 and self._position < self.size:
            raise changed(self._path)
        if self._position == self.size:
            self._folder.check(self._entry, file.fileno())
        return count


class LayerReader(io.RawIOBase):
    """The bytes of a layer: header, file, padding, and so on, and the end."""

    def __init__(self, layer: LayerPlan) -> None:
        super().__init__()
        self._layer = layer
        self._parts = _parts(layer)
        self._part: _Bytes | _File = _Bytes(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fills the buffer, short only at the end."""
        view, filled = memoryview(buffer), 0
        while filled < len(view):
            count = self._part.readinto(view[filled:])
            if count == 0 and not self._next():
                break
            filled += count
        return filled

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; where they all come from one file, without copying them once more."""
        if size > 0 and isinstance(self._part, _File) and self._part.left >= size:
            return self._part.read(size)
        return super().read(size) or b""

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """To an offset from the start, as a broken upload needs to go on; no file is read on the way."""
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("a layer is sought from its start only")
        self._part.close()
        self._parts, self._part = _parts(self._layer), _Bytes(b"")
        left = offset
        while left and self._next():
            step = min(left, self._part.size)
            self._part.skip(step)
            left -= step
        return offset - left

    def close(self) -> None:
        self._part.close()
        super().close()

    def _next(self) -> bool:
        self._part.close()
        part = next(self._parts, None)
        if part is not None:
            self._part = part
        return part is not None


def _parts(layer: LayerPlan) -> Iterator[_Bytes | _File]:
    for entry in layer.entries:
        yield _Bytes(_header(entry))
        if not entry.directory:
            yield _File(layer.folder, entry)
            yield _Bytes(bytes(tarheader.padding(entry.size)))
    yield _Bytes(tarheader.END)
