"""Tar headers that say nothing but path, kind and size: POSIX ustar, with pax records where ustar is too small.

Owner 0, time 0, mode 0644 (files) and 0755 (folders): the same content gives the same bytes on every machine.
"""

from __future__ import annotations

BLOCK = 512
END = bytes(2 * BLOCK)
"""Two empty blocks end a tar."""

_MAX_NAME = 100
_MAX_SIZE = 8**11
"""Eleven octal digits; larger sizes stand in a pax record."""


def folder_header(path: str) -> bytes:
    """The entry of a folder."""
    return _entry(f"{path}/", 0, b"5", 0o755)


def file_header(path: str, size: int) -> bytes:
    """What stands before the bytes of a file."""
    return _entry(path, size, b"0", 0o644)


def padding(size: int) -> int:
    """How many zero bytes follow a file of that size."""
    return -size % BLOCK


def _entry(path: str, size: int, kind: bytes, mode: int) -> bytes:
    name = path.encode()
    records = b""
    if len(name) > _MAX_NAME or not path.isascii():
        records += _pax_record(b"path", name)
    if size >= _MAX_SIZE:
        records += _pax_record(b"size", b"%d" % size)
    extension = _pax_entry(records) if records else b""
    short = path.encode("ascii", "replace")[:_MAX_NAME]
    return extension + _ustar(short, 0 if size >= _MAX_SIZE else size, kind, mode)


def _pax_record(key: bytes, value: bytes) -> bytes:
    """`LENGTH KEY=VALUE\\n`, where LENGTH counts itself."""
    bare = len(key) + len(value) + 3
    length = bare + len(str(bare))
    length = bare + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _pax_entry(records: bytes) -> bytes:
    return _ustar(b"././@PaxHeader", len(records), b"x", 0o644) + records + bytes(padding(len(records)))


def _ustar(name: bytes, size: int, kind: bytes, mode: int) -> bytes:
    header = b"".join(
        (
            name.ljust(_MAX_NAME, b"\0"),
            b"%07o\0" % mode,
            b"%07o\0" % 0,
            b"%07o\0" % 0,
            b"%011o\0" % size,
            b"%011o\0" % 0,
            b" " * 8,
            kind,
            bytes(_MAX_NAME),
            b"ustar\00000",
            bytes(64),
            b"%07o\0" % 0,
            b"%07o\0" % 0,
        )
    ).ljust(BLOCK, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]
