"""What a gateway process says of itself in its state file."""

from __future__ import annotations

from typing import Literal

import msgspec

from modelwright.http.statefile import Phase


class ModelState(msgspec.Struct, frozen=True, rename="camel"):
    """One of the two models as the gateway sees it.

    `state`: unknown (no URL, or not asked yet), ready, failing (it is not asked for a while). `protocols` are those
    that it speaks. `reason` (CamelCase) and `message` say what was wrong the last time, or why it cannot help.
    """

    state: Literal["unknown", "ready", "failing"] = "unknown"
    protocols: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""


class GatewayState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a gateway process is doing.

    `config_digest` is the SHA-256 (hex) of the configuration in force, `reason` and `message` say why a newer one is
    not. `kept_bytes` is the size of the kept hard examples, None where none are kept.
    """

    pid: int
    phase: Phase
    config_digest: str = ""
    reason: str = ""
    message: str = ""
    kept_bytes: int | None = None
    edge: ModelState = ModelState()
    cloud: ModelState = ModelState()
