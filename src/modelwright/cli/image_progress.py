"""How a build, push or pull goes on: a bar on a terminal, a line now and then elsewhere. All on stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Protocol, TextIO

from modelwright.cli.units import counted, readable

SECONDS_BETWEEN_LINES = 10.0


class Bars(Protocol):
    """Two counters that are shown somehow."""

    def start(self, size: int, layers: int) -> None:
        """So many bytes in all, for each counter."""

    def add(self, name: str, count: int) -> None:
        """So many more bytes of one counter; called from several threads."""

    def stop(self) -> None:
        """Show no more."""


class Shown:
    """A watcher of pushes and pulls that shows what it is told; use it in a `with` statement."""

    def __init__(self, stream: TextIO | None = None) -> None:
        out = stream or sys.stderr
        self._bars: Bars = _RichBars() if stream is None and out.isatty() else _Lines(out)
        self._arrived: int | None = None

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Show no more, so that something else can be printed."""
        self._bars.stop()

    def planned(self, size: int, count: int) -> None:
        """The image has this many bytes in this many layers."""
        self._bars.start(size, count)

    def at(self, done: int, total: int) -> None:
        """So many of all bytes have arrived; called under a lock."""
        if self._arrived is None:
            self._bars.start(total, 0)
        self._bars.add("moved", done - (self._arrived or 0))
        self._arrived = done

    def hashed(self, count: int) -> None:
        """So many more bytes have been read for their digests."""
        self._bars.add("hashed", count)

    def moved(self, count: int) -> None:
        """So many more bytes have been moved, or need not be."""
        self._bars.add("moved", count)


def _planned(size: int, layers: int) -> str:
    return f"{readable(size)} to move" + (f" in {counted(layers, 'layer')}" if layers else "")


class _Lines:
    """Plain lines for logs: the first one at once, then one each ten seconds."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._size = out, 0
        self._counts: dict[str, int] = {}
        self._last = time.monotonic()
        self._lock = threading.Lock()

    def start(self, size: int, layers: int) -> None:
        self._size = size
        print(_planned(size, layers), file=self._out, flush=True)

    def add(self, name: str, count: int) -> None:
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + count
            now = time.monotonic()
            if now - self._last < SECONDS_BETWEEN_LINES:
                return
            self._last = now
            parts = [f"{name} {100 * done // max(1, self._size)} %" for name, done in sorted(self._counts.items())]
        print(", ".join(parts), file=self._out, flush=True)

    def stop(self) -> None:
        """Nothing is open."""


class _RichBars:
    """Bars with speed and time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description:>6}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._size: int | None = None
        self._tasks: dict[str, object] = {}
        self._lock = threading.Lock()

    def start(self, size: int, layers: int) -> None:
        self._size = size
        self._progress.console.print(_planned(size, layers))
        self._progress.start()

    def add(self, name: str, count: int) -> None:
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, total=self._size)
            self._progress.advance(self._tasks[name], count)  # type: ignore[arg-type]

    def stop(self) -> None:
        self._progress.stop()
