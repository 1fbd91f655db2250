"""Clusters of test runs that were killed: the next run removes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cluster.rig import lifecycle, state

_OF_A_RUN = re.compile(r"t-([0-9]+)(-[a-z])?")


def own_name(letter: str = "") -> str:
    """What this run's cluster is called, or with a letter another of its: by it others see whether the run lives."""
    return f"t-{os.getpid()}" + (f"-{letter}" if letter else "")


def remove() -> None:
    """Remove every cluster whose test run has ended."""
    folders = state.clusters().iterdir() if state.clusters().exists() else ()
    for name in sorted(folder.name for folder in folders):
        run = _OF_A_RUN.fullmatch(name)
        if run and not Path("/proc", run[1]).exists():
            lifecycle.down(name)
