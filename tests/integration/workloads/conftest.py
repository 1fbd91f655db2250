"""A data directory for each test, and workloads on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.workloads.support import of_data_dir, open_workloads

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory; nothing that was started on it is left behind, even by a test that fails."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    yield path
    for process in of_data_dir(path):
        process.kill()


@pytest.fixture
async def workloads(data_dir: Path) -> AsyncIterator[EmbeddedWorkloads]:
    async with open_workloads(data_dir) as opened:
        yield opened
