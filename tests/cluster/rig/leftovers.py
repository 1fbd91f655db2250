"""Clusters of test runs that were killed: the next run removes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.cluster.rig import lifecycle, state

_OF_A_RUN = re.compile(r"t-([0-9]+)")


def own_name() -> str:
    """What this run's cluster is called: by it others see whether the run still lives."""
    return f"t-{os.getpid()}"


def remove() -> None:
    """Remove every cluster whose test run has ended."""
    folders = state.clusters().iterdir() if state.clusters().exists() else ()
    for name in sorted(folder.name for folder in folders):
        run = _OF_A_RUN.fullmatch(name)
        if run and not Path("/proc", run[1]).exists():
            lifecycle.down(name)
