"""What the containers of edge Pods have printed of themselves: the last line that says how they are doing."""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec

from modelwright.adapters.kubernetes.servers.gateway_state import GatewayState
from modelwright.ports.serving import KeeperState

S = TypeVar("S", KeeperState, GatewayState)

_KEEPER = msgspec.json.Decoder(KeeperState)
_GATEWAY = msgspec.json.Decoder(GatewayState)


def keeper_state(text: bytes) -> KeeperState | None:
    """The last state that `agent keep` has printed, None if none of these lines is one."""
    return _last(text, b'"keeper"', _KEEPER)


def gateway_state(text: bytes) -> GatewayState | None:
    """The last state that a gateway has printed, None if none of these lines is one."""
    return _last(text, b'"configDigest"', _GATEWAY)


def digest(annotation: str) -> str:
    """How a task or a configuration is named in a state: the SHA-256 of the file that the Pod sees, in hex."""
    return hashlib.sha256(annotation.encode()).hexdigest()


def _last(text: bytes, sign: bytes, decoder: msgspec.json.Decoder[S]) -> S | None:
    for line in reversed(text.splitlines()):
        if line.startswith(b"{") and sign in line:
            try:
                return decoder.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue  # cut short, or somebody else's line
    return None
