"""What end-to-end tests run against: a control plane in a process of its own, and two trained models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.plane import ControlPlane, programs

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    """kubectl is built by `make tools`."""
    if not (programs() / "kubectl").exists():
        message = "kubectl is not there: `make tools` builds it (needs Go >= 1.25)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two trained models of the digits, v1 and v2."""
    folder = tmp_path_factory.mktemp("digits")
    for name, quality in (("v1", "plain"), ("v2", "better")):
        command = [sys.executable, str(EXAMPLES / "digits/train.py"), "--quality", quality, str(folder / name)]
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of the test's own, running; whatever it started is gone at the end."""
    control_plane = ControlPlane(tmp_path / "data")
    control_plane.start()
    try:
        yield control_plane
    finally:
        if control_plane.process is None:
            control_plane.start()  # it adopts what still runs, and ends it
        assert control_plane.stop() == 0
        assert control_plane.processes() == []
