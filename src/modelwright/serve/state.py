"""The file in which a server process says what it serves."""

from __future__ import annotations

from typing import Literal

import msgspec

from modelwright.http.statefile import Phase

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
