"""What end-to-end tests run against: a control plane in a process of its own, and two trained models."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
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
    """A folder with two trained models of the digits: v1, a small one, and v2, a strong one."""
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, str(EXAMPLES / "digits/prepare.py"), str(folder)], check=True, capture_output=True)
    with tarfile.open(folder / "digits.tar") as tar:
        tar.extractall(folder / "datasets" / "digits", filter="data")
    for name, program in (("v1", "train_edge.py"), ("v2", "train_cloud.py")):
        where = {"KUBEDL_MODEL_PATH": str(folder / name), "MODELWRIGHT_DATASETS": str(folder / "datasets")}
        command = [sys.executable, str(folder / program)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **where})
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
