"""Time, as the control plane sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for what is waited for."""

    def now(self) -> datetime:
        """The time now, in UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...
