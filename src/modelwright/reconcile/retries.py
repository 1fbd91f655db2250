"""How often and when a build is tried again."""

from __future__ import annotations

import hashlib

ATTEMPTS = 5
FIRST_DELAY = 2.0
"""Seconds before the second attempt; each further pause is twice as long."""


def jitter(seed: str) -> float:
    """A number in [0.8, 1.2) that depends on the seed alone: deterministic, yet spread over many keys."""
    word = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
    return 0.8 + 0.4 * word / 2**32


def retry_delay(uid: str, attempt: int) -> float:
    """Seconds to wait after this attempt (1 is the first), spread by up to a fifth either way by the UID."""
    return FIRST_DELAY * 2.0 ** (attempt - 1) * jitter(f"{uid}/{attempt}")
