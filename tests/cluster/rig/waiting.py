"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], what: str, deadline_seconds: float = 60.0, pause: float = 0.1) -> None:
    """Return as soon as the condition holds. Raises TimeoutError, saying `what` was waited for."""
    deadline = time.monotonic() + deadline_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {deadline_seconds:.0f} s for {what}")
        time.sleep(pause)
