"""A store in a temporary directory and workloads in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.engine.memory_workloads import MemoryWorkloads
from tests.integration.engine.stage import Stage, opened


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with opened(tmp_path / "data") as store:
        yield Stage(store, MemoryWorkloads())
