"""What tests of serving share: models, a server to download them from, and teams with namespaces of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cluster.operator import Operator
from tests.cluster.rig.cluster import Cluster
from tests.cluster.serving import models
from tests.cluster.serving.downloads import Downloads
from tests.cluster.serving.models import File
from tests.cluster.serving.team import Team, manifest, team_of


class Shelf(msgspec.Struct, frozen=True):
    """Models that can be downloaded from `downloads`: version vN (ONNX) answers N, as file vN.tar."""

    folder: Path
    downloads: Downloads
    files: dict[str, File]
    urls: dict[str, str]

    def manifest(self, *versions: str) -> list[dict[str, object]]:
        """The manifest with these versions."""
        return manifest(**{version: (self.urls[version], self.files[version].sha256) for version in versions})

    def model(self, version: str) -> Path:
        """The folder with this version's files."""
        return self.folder / version


@pytest.fixture(scope="session")
def downloads(cluster: Cluster) -> Iterator[Downloads]:
    """A server of files that host, nodes and Pods reach."""
    with Downloads(cluster.state.names.gateway) as server:
        yield server


@pytest.fixture(scope="session")
def shelf(downloads: Downloads, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """The versions v1 to v5 of a small model; `bad` is none that could be loaded."""
    folder = tmp_path_factory.mktemp("shelf")
    for value in range(1, 6):
        models.onnx_model(folder / f"v{value}", value)
    (folder / "bad").mkdir()
    (folder / "bad/model.onnx").write_bytes(b"this is no model")
    files = {path.name: models.tar(path, folder / f"{path.name}.tar") for path in sorted(folder.iterdir())}
    return Shelf(folder, downloads, files, {version: downloads.give(file) for version, file in files.items()})


@pytest.fixture
def team(operator: Operator) -> Iterator[Team]:
    """Somebody with a fresh namespace that admits only what the restricted Pod Security Standard allows."""
    with team_of(operator.cluster) as found:
        yield found


@pytest.fixture
def privileged_team(operator: Operator) -> Iterator[Team]:
    """Somebody with a fresh namespace that admits every Pod, as servers at the edge need it."""
    with team_of(operator.cluster, "privileged") as found:
        yield found
