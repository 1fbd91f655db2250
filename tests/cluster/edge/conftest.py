"""Somebody who serves models on the bare node: the one without a network for Pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster import namespaces
from tests.cluster.builds import JSON
from tests.cluster.edge import pairs
from tests.cluster.edge.edge_team import JOINT, EdgeTeam
from tests.cluster.operator import Operator
from tests.cluster.rig.state import NodeState
from tests.cluster.serving.conftest import Shelf, downloads, shelf
from tests.cluster.serving.downloads import Downloads

__all__ = ["Shelf", "downloads", "shelf"]


@pytest.fixture(scope="module")
def edge(operator: Operator, bare_node: NodeState) -> Iterator[EdgeTeam]:
    """Somebody with a namespace that admits Pods of the edge, which the tests of a module share."""
    with namespaces.fresh(operator.cluster, "privileged") as namespace:
        team = EdgeTeam(operator.cluster, namespace, bare_node)
        yield team
        team.leave()


@pytest.fixture(scope="session")
def sides(downloads: Downloads, tmp_path_factory: pytest.TempPathFactory) -> dict[str, JSON]:
    """What an InferenceModel says of its model: at the edge, and in the cloud."""
    return pairs.sources(downloads, tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def joined(operator: Operator, bare_node: NodeState, sides: dict[str, JSON]) -> Iterator[EdgeTeam]:
    """Two InferenceModels, `small` at the edge and `large` in the cloud, and the service `digits`, which joins them."""
    with namespaces.fresh(operator.cluster, "privileged") as namespace:
        team = EdgeTeam(operator.cluster, namespace, bare_node)
        team.serve_here("small", **sides["edge"])
        team.serve("large", nodeName="cloud-0", **sides["cloud"])
        team.join("digits", edgeModel={"name": "small"}, cloudModel={"name": "large"}, **pairs.mining())
        team.ready(JOINT)
        yield team
        team.leave()
