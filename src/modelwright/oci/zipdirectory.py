"""The central directory of a zip (APPNOTE 6.3), read strictly: what readers could take differently is refused."""

from __future__ import annotations

import struct
from typing import BinaryIO

import msgspec

from modelwright.oci.names import shown
from modelwright.ports.errors import Rejected

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075
_ENCRYPTED = 0x2041
UTF8, DESCRIPTOR = 0x800, 0x8


class ZipEntry(msgspec.Struct, frozen=True):
    """One entry as the central directory has it; `mode` is its Unix mode, 0 if it has none."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    mode: int


class Directory(msgspec.Struct, frozen=True):
    """All entries in the order of their offsets, and where the directory begins, which is where the data ends."""

    entries: tuple[ZipEntry, ...]
    offset: int


def ambiguous(what: str) -> Rejected:
    """What two readers would take differently."""
    return Rejected(f"{what}: readers disagree on such a zip", reason="ArchiveAmbiguous")


def corrupt(what: str = "the zip is damaged or cut") -> Rejected:
    """What no reader can take."""
    return Rejected(what, reason="ArchiveCorrupt")


def exactly(file: BinaryIO, count: int) -> bytes:
    """The next `count` bytes."""
    data = file.read(count)
    if len(data) != count:
        raise Rejected("the zip ends too early", reason="ArchiveTruncated")
    return data


def read_directory(file: BinaryIO, length: int, max_entries: int) -> Directory:
    """The entries of a zip of `length` bytes. Raises Rejected."""
    count, size, offset, end = _end_record(file, length)
    if count > max_entries:
        raise Rejected(f"the zip has more than {max_entries} entries", reason="ArchiveTooManyEntries")
    if offset + size != end:
        raise ambiguous("the central directory is not where the end record says")
    file.seek(offset)
    entries = [_central_entry(file) for _ in range(count)]
    if file.tell() != end:
        raise ambiguous("the central directory has another length than its end record says")
    entries.sort(key=lambda entry: entry.offset)
    return Directory(tuple(entries), offset)


def _end_record(file: BinaryIO, length: int) -> tuple[int, int, int, int]:
    """Number of entries, size and offset of the directory, and where it must end."""
    tail_at = max(0, length - _END.size - _FULL16)
    file.seek(tail_at)
    tail = exactly(file, length - tail_at)
    ends = [at for at in _occurrences(tail, MAGIC[1]) if _fits_to_the_end(tail, at)]
    if not ends:
        raise Rejected("the zip has no end record: it was cut", reason="ArchiveTruncated")
    if len(ends) > 1:
        raise ambiguous("there are two end records")
    _, disk, first_disk, here, count, size, offset, _ = _END.unpack_from(tail, ends[0])
    if disk or first_disk or here != count:
        raise corrupt("the zip is one of several volumes")
    return _with_zip64(file, tail_at + ends[0], (count, size, offset))


def _occurrences(data: bytes, what: bytes) -> list[int]:
    found, at = [], data.find(what)
    while at >= 0:
        found.append(at)
        at = data.find(what, at + 1)
    return found


def _fits_to_the_end(tail: bytes, at: int) -> bool:
    if at + _END.size > len(tail):
        return False
    comment: int = _END.unpack_from(tail, at)[-1]
    return at + _END.size + comment == len(tail)


def _with_zip64(file: BinaryIO, end: int, found: tuple[int, int, int]) -> tuple[int, int, int, int]:
    file.seek(max(0, end - _LOCATOR.size))
    locator = exactly(file, min(end, _LOCATOR.size))
    if not locator.startswith(b"PK\x06\x07"):
        return (*found, end)
    at = _LOCATOR.unpack(locator)[2]
    if at + _END64.size != end - _LOCATOR.size:
        raise ambiguous("the zip64 end record is not where its locator says")
    file.seek(at)
    magic, _, _, _, disk, first_disk, here, count, size, offset = _END64.unpack(exactly(file, _END64.size))
    if magic != b"PK\x06\x06" or disk or first_disk or here != count:
        raise corrupt()
    for short, full, limit in zip(found, (count, size, offset), (_FULL16, _FULL32, _FULL32), strict=True):
        if short not in (full, limit):
            raise ambiguous("the two end records disagree")
    return count, size, offset, at


def _central_entry(file: BinaryIO) -> ZipEntry:
    fields = _CENTRAL.unpack(exactly(file, _CENTRAL.size))
    magic, made_by, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size = fields[:13]
    disk, _, attributes, offset = fields[13:]
    if magic != b"PK\x01\x02" or disk:
        raise corrupt()
    name = exactly(file, name_size)
    extra = exactly(file, extra_size)
    exactly(file, comment_size)
    if flags & _ENCRYPTED:
        raise Rejected(f"{shown(name)} is encrypted: send it as it is", reason="ArchiveEncrypted")
    size, packed, offset = zip64_fields(extra, name, (size, packed, offset))
    mode = attributes >> 16 if made_by >> 8 in (3, 19) else 0
    return ZipEntry(name, flags, method, crc, packed, size, offset, mode)


def zip64_fields(extra: bytes, name: bytes, short: tuple[int, ...]) -> tuple[int, ...]:
    """The fields with their 64-bit values where they are saturated."""
    fields = _extra_fields(extra)
    _check_unicode_path(fields.get(_UNICODE_PATH), name)
    long = fields.get(_ZIP64, b"")
    values = []
    for value in short:
        if value == _FULL32 and len(long) >= 8:
            value, long = int.from_bytes(long[:8], "little"), long[8:]
        values.append(value)
    return tuple(values)


def _extra_fields(extra: bytes) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(extra):
        key, size = struct.unpack_from("<HH", extra, at)
        data = extra[at + 4 : at + 4 + size]
        if len(data) != size or (key in fields and key in (_ZIP64, _UNICODE_PATH)):
            raise corrupt("the zip has a malformed extra field")
        fields[key] = data
        at += 4 + size
    return fields


def _check_unicode_path(field: bytes | None, name: bytes) -> None:
    if field is not None and field[5:] != name:
        raise ambiguous(f"{shown(name)} has a second name, {shown(field[5:])}")
