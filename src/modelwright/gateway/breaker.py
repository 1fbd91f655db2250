"""Whether a model is asked at all: after failures in a row it is left alone for a while."""

from __future__ import annotations

from typing import Literal, NamedTuple

Position = Literal["closed", "open", "half-open"]

FAILURES = 5
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0


class Leave(NamedTuple):
    """Leave to make one request; `probe` if it alone is to show whether requests can be made again."""

    probe: bool


class Breaker:
    """Opens after `FAILURES` failures in a row; after a pause one request shows whether it can be closed.

    The pause doubles each time that one fails. All times are seconds of one clock, which the caller reads.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._pause = 0.0
        self._until = 0.0
        self._probing = False

    @property
    def position(self) -> Position:
        if not self._pause:
            return "closed"
        return "half-open" if self._probing else "open"

    def ask(self, now: float) -> Leave | None:
        """Leave to make a request now, or none. It must be given back to one of the three methods below."""
        if not self._pause:
            return Leave(probe=False)
        if self._probing or now < self._until:
            return None
        self._probing = True
        return Leave(probe=True)

    def wait(self, now: float) -> float:
        """Seconds until leave is given to somebody."""
        return max(0.0, self._until - now) if self._pause else 0.0

    def close(self) -> None:
        """Whatever was wrong is known to be over."""
        self._failures, self._pause = 0, 0.0

    def succeeded(self, leave: Leave) -> None:  # noqa: ARG002
        """It was answered."""
        self._failures = 0
        self._pause = 0.0
        self._probing = False

    def failed(self, leave: Leave, now: float) -> None:
        """It was not, and the next is likely not to be either."""
        self._failures += 1
        if leave.probe:
            self._open(min(self._pause * 2, LONGEST_PAUSE), now)
        elif not self._pause and self._failures >= FAILURES:
            self._open(FIRST_PAUSE, now)

    def undecided(self, leave: Leave) -> None:
        """What became of it says nothing about the next."""
        if leave.probe:
            self._probing = False

    def _open(self, pause: float, now: float) -> None:
        self._pause, self._until, self._probing = pause, now + pause, False
