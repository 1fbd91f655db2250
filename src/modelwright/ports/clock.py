"""Time, as the control plane sees it."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for what is waited for."""

    def now(self) -> datetime:
        """The time now, in UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return monotonic()
