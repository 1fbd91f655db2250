"""A tar stream, read header by header: POSIX ustar and pax, GNU long names.

It reads forward only, in constant memory, and refuses whatever two readers could take differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from modelwright.oci.names import shown
from modelwright.ports.errors import Rejected

BLOCK = 512
_ZERO = bytes(BLOCK)
_MAX_EXTENSION = 1 << 20
_MAX_PADDING = 1 << 20
_SKIP = 1 << 20
_MAX_OCTAL = 0o77777777777

_KINDS = {
    b"0": "file",
    b"\0": "file",
    b"1": "hard link",
    b"2": "symbolic link",
    b"3": "character device",
    b"4": "block device",
    b"5": "folder",
    b"6": "FIFO",
    b"S": "sparse file",
    b"K": "link with a long name",
}
_WITHOUT_DATA = frozenset(b"123456")


class TarEntry(msgspec.Struct, frozen=True):
    """One entry: its raw name, what it is (`file`, `folder` or a word for what we do not unpack), its data's length."""

    name: bytes
    kind: str
    size: int


class _Header(msgspec.Struct, frozen=True):
    name: bytes
    type: bytes
    size: int


class TarReader:
    """Iterate to get the entries; `read` gives the data of the current one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left = 0
        self._padding = 0

    def read(self, count: int) -> bytes:
        """Up to `count` bytes of the current entry, b"" at its end. Raises Rejected if the stream ends before."""
        count = min(count, self._left)
        data = self._stream.read(count) if count else b""
        if count and not data:
            raise _truncated()
        self._left -= len(data)
        return data

    def __iter__(self) -> Iterator[TarEntry]:
        """Raises Rejected: ArchiveTruncated, ArchiveCorrupt or ArchiveAmbiguous."""
        while (header := self._next_header()) is not None:
            name, size, header = self._extended(header)
            yield self._begin(header, header.name if name is None else name, _agreed_size(header, size))
            self._skip()
        self._expect_only_zeros()

    def _begin(self, header: _Header, name: bytes, size: int) -> TarEntry:
        kind = _KINDS.get(header.type, f"entry of type {shown(header.type)}")
        if size and header.type[0] in _WITHOUT_DATA:
            raise _ambiguous(f"the {kind} {shown(name)} claims to have data")
        if kind == "file" and name.endswith(b"/"):
            raise _ambiguous(f"{shown(name)} is a file by its type and a folder by its name")
        self._left = size
        self._padding = -size % BLOCK
        return TarEntry(name, kind, size)

    def _extended(self, header: _Header) -> tuple[bytes | None, int | None, _Header]:
        """Name and size from the extension headers before an entry, and the entry's own header."""
        name: bytes | None = None
        size: int | None = None
        seen: set[bytes] = set()
        while header.type in (b"x", b"g", b"L"):
            if header.type != b"g" and header.type in seen:
                raise _ambiguous("an entry has two extension headers of one kind")
            seen.add(header.type)
            if header.type == b"L":
                name = _long_name(self._extension(header))
            else:
                records = _pax_records(self._extension(header))
                if header.type == b"g" and not records.keys().isdisjoint({b"path", b"size", b"linkpath"}):
                    raise _ambiguous("a global header renames or resizes all entries")
                name = records.get(b"path", name)
                size = _pax_size(records, size)
            following = self._next_header()
            if following is None:
                raise Rejected("the archive ends behind an extension header", reason="ArchiveCorrupt")
            header = following
        if seen >= {b"x", b"L"}:
            raise _ambiguous("an entry is named by a pax header and by a GNU long name")
        return name, size, header

    def _extension(self, header: _Header) -> bytes:
        if header.size > _MAX_EXTENSION:
            raise Rejected("an extension header is over 1 MiB", reason="ArchiveCorrupt")
        data = self._exactly(header.size)
        self._exactly(-header.size % BLOCK)
        return data

    def _next_header(self) -> _Header | None:
        """None at the end mark; an archive without one was cut."""
        block = self._exactly(BLOCK)
        return None if block == _ZERO else _parse(block)

    def _skip(self) -> None:
        while self._left:
            self.read(_SKIP)
        self._exactly(self._padding)
        self._padding = 0

    def _expect_only_zeros(self) -> None:
        """Read to the stream's end: a compressed stream checks its sum there, and nothing may hide there."""
        padding = 0
        while chunk := self._stream.read(BLOCK):
            padding += len(chunk)
            if chunk.strip(b"\0") or padding > _MAX_PADDING:
                raise _ambiguous("there is data behind the end of the archive")

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self._stream.read(count - len(data))
            if not chunk:
                raise _truncated()
            data += chunk
        return bytes(data)


def is_header(block: bytes) -> bool:
    """Whether a file that begins with these 512 bytes is a tar."""
    try:
        return len(block) == BLOCK and any(block[:100]) and _number(block[148:156]) == _checksum(block)
    except Rejected:
        return False


def _checksum(block: bytes) -> int:
    return sum(block[:148]) + 8 * 0x20 + sum(block[156:])


def _parse(block: bytes) -> _Header:
    if _number(block[148:156]) != _checksum(block):
        raise Rejected("a header's checksum is wrong: the archive is damaged or no tar", reason="ArchiveCorrupt")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500])):
        name = prefix + b"/" + name
    return _Header(name, block[156:157], _number(block[124:136]))


def _text(field: bytes) -> bytes:
    text, _, rest = field.partition(b"\0")
    if rest.strip(b"\0"):
        raise Rejected(f"the name {shown(field)} has a NUL inside", reason="ArchiveNameInvalid")
    return text


def _number(field: bytes) -> int:
    """Octal digits, or GNU's base 256 where the first bit is set."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if digits.strip(b"01234567"):
        raise Rejected("a header has a negative or malformed number", reason="ArchiveCorrupt")
    return int(digits, 8)


def _long_name(data: bytes) -> bytes:
    name = data[:-1] if data.endswith(b"\0") else data
    if b"\0" in name:
        raise Rejected(f"the name {shown(name)} has a NUL inside", reason="ArchiveNameInvalid")
    return name


def _pax_records(data: bytes) -> dict[bytes, bytes]:
    """Records `LENGTH KEY=VALUE\\n`, where LENGTH counts the whole record: POSIX pax, Extended Header."""
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        digits, space, _ = data[at : at + 8].partition(b" ")
        if not space or not digits.isdigit():
            raise _bad_pax()
        record = data[at : at + int(digits)]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if len(record) != int(digits) or not equals or not key or record[-1:] != b"\n":
            raise _bad_pax()
        _refuse_record(key, records)
        records[key] = value
        at += len(record)
    return records


def _refuse_record(key: bytes, records: dict[bytes, bytes]) -> None:
    if key.startswith(b"GNU.sparse."):
        raise Rejected("the archive has sparse files", reason="ArchiveHasSpecialFiles")
    if key in records and key in (b"path", b"size"):
        raise _ambiguous("a pax header gives a path or size twice")


def _pax_size(records: dict[bytes, bytes], default: int | None) -> int | None:
    text = records.get(b"size")
    if text is None:
        return default
    if not text.isdigit() or len(text) > 20:
        raise Rejected("a pax header has a negative or malformed size", reason="ArchiveCorrupt")
    return int(text)


def _agreed_size(header: _Header, size: int | None) -> int:
    """A pax size is for what the header cannot say; else both must say the same."""
    if size is None:
        return header.size
    if size != header.size and size <= _MAX_OCTAL:
        raise _ambiguous(f"{shown(header.name)} has one length in its header and another in a pax record")
    return size


def _bad_pax() -> Rejected:
    return Rejected("a pax header is malformed", reason="ArchiveCorrupt")


def _ambiguous(what: str) -> Rejected:
    return Rejected(f"{what}: readers disagree on such an archive", reason="ArchiveAmbiguous")


def _truncated() -> Rejected:
    return Rejected("the archive ends too early", reason="ArchiveTruncated")
