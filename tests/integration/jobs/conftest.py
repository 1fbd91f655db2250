"""Builds in Jobs, against the distribution project's registry: plain, and locked with TLS and a password."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.images.conftest import docker_registry, locked_registry, scripted
from tests.integration.jobs.chroot import Kaniko
from tests.integration.jobs.support import Agent

__all__ = ["docker_registry", "locked_registry", "scripted"]

INSTALL = Path(__file__).parents[2] / "tools" / "install.py"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    folder = tmp_path / "job"
    folder.mkdir()
    return Agent(folder)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder with names that are easy to get wrong."""
    folder = tmp_path / "model"
    for path, data in {
        "config.json": b"{}",
        "a folder/with space, ünïcode.txt": b"words",
        ".hidden/.file": b"h",
        ".dockerignore": b"*\n!nothing\n",
        "Dockerfile": b"FROM elsewhere\nRUN false\n",
        "inner/.modelwright/kept": b"k",
        ".modelwright/metrics.json": b'{"accuracy": 0.93}',
        ".modelwright/deep/er/private": b"never packed",
        "weights.bin": os.urandom(9_000_000),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "empty").mkdir()
    (folder / "weights.bin").chmod(0o600)
    return folder


@pytest.fixture
def kaniko(tmp_path: Path) -> Kaniko:
    """The real executor, in a root of its own."""
    printed = subprocess.run([sys.executable, str(INSTALL), "--print"], check=True, capture_output=True, text=True)
    executor = Path(printed.stdout.strip()) / "kaniko"
    if not executor.exists():
        _left_out(f"{executor} is not there: `make tools` builds it (needs Go >= 1.25)")
    if sys.platform != "linux" or os.geteuid() != 0:
        _left_out("Kaniko's executor needs Linux and root")
    return Kaniko(executor, tmp_path / "root")


def _left_out(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
