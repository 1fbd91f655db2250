"""The cluster itself does what tests and people rely on."""

from __future__ import annotations

from tests.cluster.rig.cluster import Cluster


def test_two_nodes_are_ready(cluster: Cluster) -> None:
    assert cluster.nodes_ready()
    assert [node.name for node in cluster.nodes] == ["cloud-0", "edge-0"]


def test_a_namespace_is_ready_for_pods(kubectl: object, namespace: str) -> None:
    assert namespace
