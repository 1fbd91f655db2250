"""The file in which a process says how it is doing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

Phase = Literal["loading", "ready", "draining", "failed"]


class StateFile:
    """Writes a state by rename, so that a reader sees a whole one, and only when it differs from the last."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last = b""

    def write(self, state: msgspec.Struct) -> None:
        """Raises OSError if the folder cannot be written."""
        content = msgspec.json.encode(state)
        if self._path is None or content == self._last:
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(self._path)
        self._last = content
