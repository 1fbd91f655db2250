"""Unpack a zip into a folder, trusting nothing in it.

The entries must lie one behind the other from the first byte on, each local header must say what the central
directory says, and each file must have the length and checksum that both say: so every reader sees the same content.
"""

from __future__ import annotations

import stat
import zlib
from pathlib import Path
from typing import BinaryIO

from modelwright.oci.names import decode_name, entry_parts, shown
from modelwright.oci.recorder import Recorder
from modelwright.oci.tree import Limits, SafeTree, Unpacked
from modelwright.oci.unpack import refuse_kind, refuse_whiteout
from modelwright.oci.zipdirectory import (
    DESCRIPTOR,
    LOCAL,
    UTF8,
    Directory,
    ZipEntry,
    ambiguous,
    corrupt,
    exactly,
    read_directory,
    zip64_fields,
)
from modelwright.ports.errors import Rejected

_STORED, _DEFLATED = 0, 8
_IN = 1 << 16


def unpack_zip(path: Path, destination: Path, limits: Limits, recorder: Recorder | None = None) -> Unpacked:
    """Unpack into `destination`, made if absent. Raises Rejected, or Unavailable (DiskFull)."""
    length = path.stat().st_size
    with path.open("rb") as file, SafeTree(destination, limits, recorder=recorder) as tree:
        directory = read_directory(file, length, limits.entries)
        _check_sizes(directory, length, limits)
        for entry, end in zip(directory.entries, _ends(directory), strict=True):
            _unpack_entry(file, entry, end, tree)
        return tree.unpacked


def _check_sizes(directory: Directory, length: int, limits: Limits) -> None:
    total = sum(entry.size for entry in directory.entries)
    if total > limits.size:
        raise Rejected(f"the zip expands to more than {limits.size} bytes", reason="ArchiveTooLarge")
    if total > limits.ratio * length + limits.slack:
        raise Rejected(
            f"the zip expands more than {limits.ratio} times: send such content uncompressed", reason="ArchiveIsBomb"
        )


def _ends(directory: Directory) -> list[int]:
    """Where each entry must end: where the next one begins."""
    starts = [entry.offset for entry in directory.entries]
    if (starts or [directory.offset])[0] != 0:
        raise ambiguous("there is data before the first entry")
    return [*starts[1:], directory.offset]


def _unpack_entry(file: BinaryIO, entry: ZipEntry, end: int, tree: SafeTree) -> None:
    name = decode_name(entry.name)
    parts = entry_parts(name)
    refuse_whiteout(parts)
    kind = _kind(entry)
    refuse_kind(kind, name)
    file.seek(entry.offset)
    _check_local_header(file, entry)
    member = _Member(file, entry)
    if kind == "folder":
        tree.folder(parts)
    else:
        tree.file(parts, entry.size, member.read)
    member.finish()
    _check_descriptor(file, entry, end)


def _kind(entry: ZipEntry) -> str:
    kind = stat.S_IFMT(entry.mode)
    if kind == stat.S_IFLNK:
        return "symbolic link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "special file"
    folder = entry.name.endswith(b"/")
    if kind and folder != (kind == stat.S_IFDIR):
        raise ambiguous(f"{shown(entry.name)} is a file by its mode and a folder by its name, or the reverse")
    if folder and entry.size:
        raise ambiguous(f"the folder {shown(entry.name)} claims to have data")
    return "folder" if folder else "file"


def _check_local_header(file: BinaryIO, entry: ZipEntry) -> None:
    """Read the local header up to the data, and compare it with the central directory."""
    fields = LOCAL.unpack(exactly(file, LOCAL.size))
    magic, _, flags, method, _, _, crc, packed, size, name_size, extra_size = fields
    if magic != b"PK\x03\x04":
        raise corrupt()
    name = exactly(file, name_size)
    size, packed = zip64_fields(exactly(file, extra_size), name, (size, packed))
    said = (name, flags & (UTF8 | DESCRIPTOR | 1), method, crc, packed, size)
    expected = (entry.name, entry.flags & (UTF8 | DESCRIPTOR | 1), entry.method, entry.crc, entry.packed, entry.size)
    if said == expected:
        return
    if said[:3] == expected[:3] and flags & DESCRIPTOR and (crc, packed, size) == (0, 0, 0):
        return
    raise ambiguous(f"{shown(entry.name)} is described differently in its local header and in the directory")


def _check_descriptor(file: BinaryIO, entry: ZipEntry, end: int) -> None:
    """Behind the data there is nothing, or the descriptor that the flags announce."""
    rest = exactly(file, end - file.tell()) if 0 <= end - file.tell() <= 24 else None
    sums = entry.crc.to_bytes(4, "little")
    allowed = [b""] if not entry.flags & DESCRIPTOR else []
    for width in (4, 8) if entry.flags & DESCRIPTOR else ():
        if max(entry.packed, entry.size) >> (8 * width) == 0:
            plain = sums + entry.packed.to_bytes(width, "little") + entry.size.to_bytes(width, "little")
            allowed += [plain, b"PK\x07\x08" + plain]
    if rest not in allowed:
        raise ambiguous(f"{shown(entry.name)} overlaps the next entry, or something lies between them")


class _Member:
    """The expanded bytes of one entry."""

    def __init__(self, file: BinaryIO, entry: ZipEntry) -> None:
        if entry.method not in (_STORED, _DEFLATED):
            raise Rejected(
                f"{shown(entry.name)} is compressed by method {entry.method}: use deflate or none",
                reason="ArchiveFormatUnsupported",
            )
        if entry.method == _STORED and entry.packed != entry.size:
            raise ambiguous(f"{shown(entry.name)} is stored, but with two lengths")
        self._file = file
        self._entry = entry
        self._left = entry.packed
        self._crc = 0
        self._inflate = zlib.decompressobj(-15) if entry.method == _DEFLATED else None
        self._pending = b""

    def read(self, count: int) -> bytes:
        data = self._take(count) if self._inflate is None else self._expand(self._inflate, count)
        self._crc = zlib.crc32(data, self._crc)
        return data

    def finish(self) -> None:
        """Raises Rejected unless all was read, no more is there and the checksum is right."""
        if self.read(1) or self._left or (self._inflate is not None and not self._ended(self._inflate)):
            raise ambiguous(f"{shown(self._entry.name)} holds more than its length says")
        if self._crc != self._entry.crc:
            raise corrupt(f"{shown(self._entry.name)} has a wrong checksum: the zip is damaged")

    def _ended(self, inflate: zlib._Decompress) -> bool:
        return (inflate.eof or self._entry.packed == 0) and not inflate.unused_data

    def _take(self, count: int) -> bytes:
        data = exactly(self._file, min(count, self._left))
        self._left -= len(data)
        return data

    def _expand(self, inflate: zlib._Decompress, count: int) -> bytes:
        while not inflate.eof and (self._pending or self._left):
            if not self._pending:
                self._pending = self._take(_IN)
            try:
                data = inflate.decompress(self._pending, count)
            except zlib.error:
                raise corrupt(f"{shown(self._entry.name)} is damaged") from None
            self._pending = inflate.unconsumed_tail
            if data:
                return data
        return b""
