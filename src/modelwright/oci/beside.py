"""SHA-256 beside the work that the bytes are for: on another core, while they are read and written on this one."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

BATCH = 1 << 20
"""Bytes that are handed over at a time: a hand-over costs as much as hashing some ten thousand."""
_AHEAD = 4
"""Batches that are held for the other thread at most."""


class BesideHash:
    """A running SHA-256 whose work is done by the thread of `pool`. The bytes given to it must not change."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._running = hashlib.sha256()
        self._batch: list[bytes] = []
        self._size = 0
        self._waiting: deque[Future[None]] = deque()

    def update(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._batch.append(chunk)
        self._size += len(chunk)
        if self._size >= BATCH:
            self._hand_over()
            if len(self._waiting) > _AHEAD:
                self._waiting.popleft().result()

    def hexdigest(self) -> str:
        """Of all bytes so far, in hexadecimal; more may follow."""
        self._hand_over()
        while self._waiting:
            self._waiting.popleft().result()
        return self._running.hexdigest()

    def _hand_over(self) -> None:
        if self._batch:
            self._waiting.append(self._pool.submit(self._hash, self._batch))
            self._batch, self._size = [], 0

    def _hash(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            self._running.update(chunk)
