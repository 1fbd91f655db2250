"""The file in which a server process says what it serves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

Phase = Literal["loading", "ready", "draining", "failed"]
VersionPhase = Literal["loading", "ready", "failed", "unloading"]


class VersionState(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one version; `reason` (CamelCase) and `message` are set when it failed."""

    version: str
    number: int
    state: VersionPhase
    reason: str = ""
    message: str = ""


class ServerState(msgspec.Struct, frozen=True, rename="camel"):
    """What a server process serves.

    `default_version` is the version that requests without a version reach now, `config_digest` the SHA-256 (hex)
    of the configuration that has been fully applied, failures included. `reason` and `message` speak of the
    process as a whole: why it failed, or why the configuration's present content is not applied.
    """

    pid: int
    phase: Phase
    default_version: str | None = None
    versions: tuple[VersionState, ...] = ()
    config_digest: str = ""
    reason: str = ""
    message: str = ""


class StateFile:
    """Writes a ServerState by rename, so that a reader sees a whole one, and only when it differs from the last."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last = b""

    def write(self, state: ServerState) -> None:
        """Raises OSError if the folder cannot be written."""
        content = msgspec.json.encode(state)
        if self._path is None or content == self._last:
            return
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(self._path)
        self._last = content
