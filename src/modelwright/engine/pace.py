"""How often the same object is written to: some times at once, then now and then."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Pace(Generic[K]):
    """Of each key, `burst` writes may follow one another at once, and one more each `seconds` (a token bucket).

    For what sums up many others: a thousand versions that are built within a minute are no thousand news of their
    Model. Times are those of one clock, in seconds.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        self._slack = (burst - 1) * seconds
        self._seconds = seconds
        self._spent: dict[K, float] = {}

    def rest(self, key: K, now: float) -> float:
        """Seconds until this key may be written to again; 0 if it may now."""
        return max(self._spent.get(key, now) - self._slack - now, 0.0)

    def wrote(self, key: K, now: float) -> None:
        """It has been written to."""
        self._spent[key] = max(self._spent.get(key, now), now) + self._seconds

    def forget(self, key: K) -> None:
        """The key is of no interest any more."""
        self._spent.pop(key, None)
