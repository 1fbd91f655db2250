"""What a task in a Job prints: lines for people, and its progress as lines of JSON between them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from modelwright.ports.workloads import Progress

PROGRESS_SECONDS = 1.0
"""Lines of progress are at least so far apart, the last one aside."""


class Printer:
    """Writes whole lines at once, from any thread. A reader that is gone ends no build."""

    def __init__(self, descriptor: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._descriptor, self._clock = descriptor, clock
        self._lock = threading.Lock()
        self._next = 0.0
        self._latest: Progress | None = None
        self._printed: Progress | None = None

    def say(self, text: str) -> None:
        """A line for people; control characters are spelled out, so that no name of a file forges a line."""
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
        self._write(shown.encode("utf-8", "backslashreplace"))

    def line(self, line: bytes) -> None:
        """A line for programs, as it is."""
        self._write(line)

    def progress(self, done: int, total: int) -> None:
        """Bytes moved, of how many: printed if the last one was long enough ago. It never runs backwards."""
        with self._lock:
            if self._latest is None or done >= self._latest.bytes_done:
                self._latest = Progress(done, total)
            now = self._clock()
            if self._printed is None or now >= self._next:
                self._next = now + PROGRESS_SECONDS
                self._print_latest()

    def finish(self) -> None:
        """Print the last progress, unless it has been."""
        with self._lock:
            self._print_latest()

    def _print_latest(self) -> None:
        if self._latest is not None and self._latest != self._printed:
            self._printed = self._latest
            self._write(msgspec.json.encode(self._latest))

    def _write(self, line: bytes) -> None:
        data = line + b"\n"
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]
