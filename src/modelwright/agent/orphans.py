"""What a command has started and left behind, found by its descent.

On Linux a process whose parent is gone falls to this one (`adopt`), whatever session or group it has gone into,
so that nothing that a command has started outlives it. Elsewhere its process group is all that is known.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.01


def adopt() -> None:
    """Have all descendants of this process fall to it, should their parents die."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_all(reap: Callable[[], object]) -> None:
    """Kill all descendants of this process; `reap` takes up those that have ended."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        reap()
        found = descendants(os.getpid())
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def descendants(root: int) -> set[int]:
    """The processes that descend from `root`; none where that cannot be known."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        fresh = children.get(waiting.pop(), [])
        found.update(fresh)
        waiting += fresh
    return found


def _parents() -> list[tuple[int, int]]:
    """All processes with their parents."""
    found = []
    for place in Path("/proc").iterdir() if sys.platform == "linux" else ():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                fields = place.joinpath("stat").read_bytes().rpartition(b")")[2].split()
                found.append((int(place.name), int(fields[1])))
    return found
