"""The API server's time, by which it stamps what is made: the operator's own clock may be another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

TOLERATED = timedelta(seconds=5)
"""Stamps are whole seconds, and answers take a while."""


class ServerClock:
    """What stands between its clock and ours is learned from what has just been made, and none before that."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def saw(self, created: datetime | None) -> None:
        """The stamp of an object that was made a moment ago."""
        if created is not None:
            ahead = datetime.now(UTC) - created
            self._ahead = ahead if abs(ahead) > TOLERATED else timedelta()

    def now(self) -> datetime:
        """Its time, about."""
        return datetime.now(UTC) - self._ahead
