"""What a download may do, and for how long."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Policy(msgspec.Struct, frozen=True):
    """Limits of downloads; times are in seconds.

    `allow_private`: whether loopback and private networks may be reached.
    `allow_files`: whether `file://` may be read, though nothing below `forbidden_folders` but `readable_folders`.
    `ca_file`: a private CA (PEM), trusted besides the system's.
    `stall_timeout`: how long a server may send nothing.
    `attempts`: how often in a row it may fail without sending at least a mebibyte.
    """

    allow_private: bool = True
    allow_files: bool = True
    forbidden_folders: tuple[Path, ...] = ()
    readable_folders: tuple[Path, ...] = ()
    ca_file: Path | None = None
    max_bytes: int = 1 << 40
    max_redirects: int = 5
    connect_timeout: float = 10.0
    stall_timeout: float = 60.0
    attempts: int = 6
    first_pause: float = 0.5
    longest_pause: float = 30.0
