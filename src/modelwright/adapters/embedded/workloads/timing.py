"""How long things take and how often they are looked at; seconds and bytes."""

from __future__ import annotations

import random

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """`busy_poll` and `rest_poll`: how often state files are looked at during a change and at rest.

    `task_poll`: how often a running command's progress, workers and log are; `keep_failed`: how long the models and
    datasets of a command that failed are kept for the next attempt.
    """

    backoff_first: float = 1.0
    backoff_cap: float = 300.0
    stable_after: float = 60.0
    fetch_retry_cap: float = 300.0
    drain: float = 20.0
    task_grace: float = 30.0
    keep_failed: float = 600.0
    busy_poll: float = 0.05
    rest_poll: float = 2.0
    task_poll: float = 1.0
    port_retry: float = 5.0
    handover_patience: float = 30.0
    worker_idle: float = 10.0
    worker_memory: int = 1024 * 1024 * 1024
    memory_sample: float = 1.0


class Backoff:
    """Exponential waiting after failures, with jitter so that replicas do not come back in step."""

    def __init__(self, first: float, cap: float, *, free: int = 0) -> None:
        self._first = first
        self._cap = cap
        self._free = free
        self.failures = 0
        self.not_before = 0.0
        """No new attempt before this moment, on the clock whose time is given to `failed`."""

    def failed(self, now: float) -> None:
        self.failures += 1
        steps = self.failures - 1 - self._free
        delay = 0.0 if steps < 0 else min(self._cap, self._first * 2.0 ** min(steps, 30))
        self.not_before = now + delay * random.uniform(0.9, 1.1)  # noqa: S311

    def reset(self) -> None:
        self.failures = 0
        self.not_before = 0.0
