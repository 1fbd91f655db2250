"""One control plane and one registry for all tests of faults; each test has a namespace and a node of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.faults.plane import PROGRAMS, Plane, running_plane
from tests.cluster.faults.registry import Registry, running_registry

INSTALL = Path(__file__).parents[2] / "tools" / "install.py"


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane that all tests of the session share: what a test kills, it starts again."""
    printed = subprocess.run([sys.executable, str(INSTALL), "--print"], check=True, capture_output=True, text=True)
    programs = Path(printed.stdout.strip())
    _need([name for name in PROGRAMS if not (programs / name).exists()], programs)
    with running_plane(programs, tmp_path_factory.mktemp("plane")) as running:
        yield running


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that all tests of the session share: each uses repositories of its own."""
    _need([name for name in ("docker-registry",) if shutil.which(name) is None], Path("PATH"))
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They need no nodes, and no right on the machine: what is built for the contract tests, and two programs more."""
    for item in items:
        if "plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.apiserver)


def _need(missing: list[str], folder: Path) -> None:
    if not missing:
        return
    message = f"{', '.join(missing)} not in {folder}: `make tools` installs them (Debian, root, Go >= 1.25)"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
