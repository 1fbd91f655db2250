"""Folders of a Pod, file servers, and registries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.images.conftest import docker_registry, locked_registry
from tests.integration.serve.conftest import models
from tests.integration.serving_agent.beside import Beside
from tests.integration.serving_agent.hosts import FileHost, file_host
from tests.integration.serving_agent.pod import Pod

__all__ = ["docker_registry", "locked_registry", "models"]


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    found = Pod(tmp_path / "pod")
    yield found
    found.close()


@pytest.fixture
def host() -> Iterator[FileHost]:
    with file_host() as found:
        yield found


@pytest.fixture
def beside(pod: Pod) -> Beside:
    return Beside(pod)
