"""Reads as much of an ELF file as says where it runs and what it needs: https://refspecs.linuxfoundation.org/elf/."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

MACHINES = {62: "amd64", 183: "arm64"}
LOAD, DYNAMIC = 1, 2
NEEDED, STRING_TABLE = 1, 5


@dataclass(frozen=True)
class Elf:
    """The architecture, and the names of the libraries that must be there."""

    architecture: str
    needed: tuple[str, ...]


def read_elf(file: Path) -> Elf | None:
    """None for what is no ELF file of 64 bits."""
    with file.open("rb") as opened:
        if opened.read(5) != b"\x7fELF\x02":
            return None
        content = b"\x7fELF\x02" + opened.read()
    machine = int(struct.unpack_from("<H", content, 18)[0])
    return Elf(MACHINES.get(machine, f"machine {machine}"), tuple(_needed(content)))


def _needed(content: bytes) -> list[str]:
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    # Type, offset in the file, address, size in the file.
    headers = [struct.unpack_from("<I4xQQ8xQ", content, start + size * index) for index in range(count)]
    loaded = [header[1:] for header in headers if header[0] == LOAD]
    entries = [
        struct.unpack_from("<qQ", content, offset + position)
        for kind, offset, _, length in headers
        if kind == DYNAMIC
        for position in range(0, length, 16)
    ]
    tables = [value for tag, value in entries if tag == STRING_TABLE]
    if not tables:
        return []
    at = next(offset + tables[0] - address for offset, address, length in loaded if 0 <= tables[0] - address < length)
    names = [at + value for tag, value in entries if tag == NEEDED]
    return [content[name : content.index(b"\0", name)].decode() for name in names]
