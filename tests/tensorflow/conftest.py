"""SavedModels, made once, and what they are tried with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwright.serve.frameworks.tensorflow import load_library

load_library()  # with the settings of the server, before a test imports it with its own

from tests.integration.serve.site import Site  # noqa: E402
from tests.tensorflow import models as saved  # noqa: E402


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders "1" to "5", each with a model that multiplies by its number, and "many" with several signatures."""
    root = tmp_path_factory.mktemp("saved")
    for factor in range(1, 6):
        saved.times(root / str(factor), factor)
    saved.many(root / "many")
    return root


@pytest.fixture
def site(tmp_path: Path, models: Path) -> Iterator[Site]:
    """Server processes on a configuration; they are gone at the end."""
    found = Site(tmp_path, models)
    yield found
    for process in found.processes:
        process.popen.kill()
        process.popen.wait()
