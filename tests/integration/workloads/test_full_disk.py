"""A disk that is full: what runs goes on, what ends is told, and all comes right once there is room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.workloads.test_kill import ROOT

PROGRAM = (sys.executable, "-m", "tests.integration.workloads.full_disk_program")
ISOLATED = ("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
MOUNT = 'mount -t tmpfs -o size=48m tmpfs "$0" && exec "$@"'


def own_file_system(folder: Path) -> list[str]:
    """Words to run a program with, for which the folder is a small file system of its own; none if that is refused."""
    words = [*ISOLATED, "/bin/sh", "-c", MOUNT, str(folder)]
    try:
        tried = subprocess.run([*words, "true"], capture_output=True)
    except FileNotFoundError:
        return []
    return words if tried.returncode == 0 else []


@pytest.mark.parametrize("how", ["filled", "limited"])
def test_workloads_outlive_a_full_disk(data_dir: Path, how: str) -> None:
    """Where no small file system can be had, files that may not grow have to do."""
    isolated = own_file_system(data_dir) if how == "filled" else []
    way = how if isolated else "limited"
    done = subprocess.run([*isolated, *PROGRAM, str(data_dir), way], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "all is as it should be\n"), done.stderr[-6000:]
