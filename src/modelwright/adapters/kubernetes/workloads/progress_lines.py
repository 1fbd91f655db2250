"""How far an agent is, by the lines that it prints."""

from __future__ import annotations

import msgspec

from modelwright.ports.workloads import Progress

MOST_BYTES = 2**63 - 1

_PROGRESS = msgspec.json.Decoder(Progress)


def last_progress(text: bytes) -> Progress | None:
    """The last line that tells how far it is; one that cannot be true tells nothing."""
    for line in reversed(text.splitlines()):
        if line.startswith(b"{"):
            try:
                told = _PROGRESS.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue
            if 0 <= told.bytes_done <= MOST_BYTES and 0 <= told.bytes_total <= MOST_BYTES:
                return told
    return None
