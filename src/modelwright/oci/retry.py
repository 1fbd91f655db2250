"""Trying again: growing, random pauses, and what the other side asks for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from modelwright.ports.errors import Retryable, Unavailable

T = TypeVar("T")

_LONGEST_ASKED_FOR = 60.0


class Retry:
    """`attempts` counts the first one too; `first_pause`, in seconds, is doubled each time."""

    def __init__(
        self, attempts: int = 5, first_pause: float = 0.5, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._attempts, self._first_pause, self._pause = attempts, first_pause, pause

    def run(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, tried again after errors that may mend themselves."""
        number = 1
        while True:
            try:
                return attempt()
            except Retryable as error:
                if not self.rest(number, error):
                    raise
            number += 1

    def rest(self, number: int, error: Retryable) -> bool:
        """Pause after the failed attempt of this number; False, at once, if it makes no sense to go on."""
        after = error.after or 0.0
        if number >= self._attempts or not isinstance(error, Unavailable) or after > _LONGEST_ASKED_FOR:
            return False
        longest = self._first_pause * 2 ** (number - 1)
        self._pause(max(after, longest * random.uniform(0.5, 1.0)))  # noqa: S311 - spreads load only
        return True
