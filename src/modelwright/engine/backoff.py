"""How long to wait after a failure: exponential, capped, with jitter that is the same for the same key."""

from __future__ import annotations

from collections.abc import Hashable

from modelwright.reconcile.retries import jitter


class Backoff:
    """Counts failures by key. The first retry comes after `base` seconds, each later one after twice as long."""

    def __init__(self, base: float = 0.2, limit: float = 120.0) -> None:
        self._base = base
        self._limit = limit
        self._failures: dict[Hashable, int] = {}

    def next(self, key: Hashable) -> float:
        """One more failure: the seconds to wait now."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._limit, self._base * 2.0 ** min(failures, 30)) * jitter(f"{key}/{failures}")

    def reset(self, key: Hashable) -> None:
        """It went well: the next failure is a first one again."""
        self._failures.pop(key, None)
