"""Folders that outlive their workload: `hard-examples/NAMESPACE/NAME` below the data directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from modelwright.ports.errors import Forbidden, Invalid, Unavailable

FOLDER = "hard-examples"
_PART = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_NAME = re.compile(rf"{_PART}(?:/{_PART})?")


def check(name: str) -> None:
    """Raises Invalid for what is neither NAME nor NAMESPACE/NAME, each as Kubernetes names things."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} names no folder to keep things in: write NAME or NAMESPACE/NAME")


def folder_of(data_dir: Path, name: str) -> Path:
    """Where it is, or will be. Raises Invalid."""
    check(name)
    return data_dir / FOLDER / name


def prepare(data_dir: Path, name: str) -> Path:
    """The folder, made if it is missing.

    Raises Invalid, Forbidden (StorageForbidden) where a link would lead somewhere else, Unavailable (DiskError).
    """
    path = folder_of(data_dir, name)
    if path.resolve() != data_dir.resolve() / FOLDER / name:
        raise Forbidden(f"{path} is reached over a link: put a folder there", reason="StorageForbidden")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot make {path} ({error.strerror}): make room there", reason="DiskError") from error
    return path


class KeptBytes:
    """How much is in a folder: as its gateway says, and counted once while none has said anything."""

    def __init__(self) -> None:
        self._known: tuple[Path, int] | None = None

    def look(self, path: Path, said: Iterable[int | None]) -> int:
        """The bytes in it; `said` is what those say that write there."""
        numbers = [number for number in said if number is not None]
        if numbers:
            self._known = path, max(numbers)
        elif self._known is None or self._known[0] != path:
            self._known = path, size(path)
        return self._known[1]


def size(path: Path) -> int:
    """Bytes in its files; 0 if it is not there."""
    total = 0
    for place, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(Path(place, name)).st_size
            except FileNotFoundError:
                continue
    return total
