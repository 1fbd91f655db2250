"""Noticing that a command has changed what it was given to read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def look(folder: Path) -> str:
    """What tells the folder's present files from others: any change of one gives it another time of change."""
    found = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for path in [place, *(os.path.join(place, name) for name in sorted(files))]:  # noqa: PTH118 - there may be many
            state = os.lstat(path)
            stamp = (path, state.st_ino, state.st_size, state.st_mode, state.st_mtime_ns, state.st_ctime_ns)
            found.update(repr(stamp).encode("utf-8", "surrogateescape"))
    return found.hexdigest()
