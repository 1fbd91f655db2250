"""Nodes do what tests of serving at the edge rely on: one has no network for Pods; they fail, and come back."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.cluster.rig import node_faults
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.manifests import container, pod, web
from tests.cluster.rig.names import BARE_NODE
from tests.cluster.rig.state import NodeState
from tests.cluster.rig.waiting import until

PORT = 8588


def answer(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return str(response.read().decode().strip())
    except OSError:
        return ""


def at_the_edge(cluster: Cluster, name: str, **more: Any) -> dict[str, Any]:
    """A Pod on the bare node, in the network of the host, that no state of its node drives away."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [BARE_NODE]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    ports = [{"containerPort": PORT, "hostPort": PORT}]
    server = container(cluster.registry, *web(PORT), ports=ports, **more)
    return pod(name, server, hostNetwork=True, affinity=affinity, tolerations=[{"operator": "Exists"}])


@pytest.fixture
def served(cluster: Cluster, bare_node: NodeState, privileged_namespace: str) -> Iterator[str]:
    """A web server on the bare node; its URL."""
    cluster.apply(at_the_edge(cluster, "web"), namespace=privileged_namespace)
    url = f"http://{bare_node.address}:{PORT}/"
    until(partial(answer, url), "an answer of the bare node", 120)
    yield url
    cluster.run("delete", "pod", "web", "--namespace", privileged_namespace)
    until(lambda: answer(url) == "", "the web server to end")


def test_a_node_without_a_network_for_pods_is_not_ready_and_runs_pods_of_the_hosts_network(
    cluster: Cluster, bare_node: NodeState, served: str
) -> None:
    node = cluster.get("node", bare_node.name)
    (ready,) = [each for each in node["status"]["conditions"] if each["type"] == "Ready"]
    assert ready["status"] == "False"
    assert "cni plugin not initialized" in ready["message"]
    until(lambda: "NoSchedule" in cluster.run("get", "node", bare_node.name, "-o", "jsonpath={.spec.taints}"), "taint")
    assert answer(served) == bare_node.name
    assert cluster.nodes_ready()


def test_pods_come_back_after_all_containers_and_the_kubelet_were_killed(
    cluster: Cluster, bare_node: NodeState, served: str
) -> None:
    cluster.cut(bare_node.name)
    try:
        cluster.stop(f"kubelet-{bare_node.name}", kill=True)
        cluster.kill_containers(bare_node.name)
    finally:
        cluster.mend(bare_node.name)
    until(lambda: answer(served) == "", "the web server to be gone")
    cluster.start_node(bare_node.name)
    until(partial(answer, served), "an answer again", 120)


def test_pods_come_back_after_the_power_failed(cluster: Cluster, bare_node: NodeState, served: str) -> None:
    cluster.kill_node(bare_node.name)
    assert answer(served) == ""
    cluster.start_node(bare_node.name)
    until(partial(answer, served), "an answer again", 120)


def test_a_node_that_was_deleted_registers_again_when_it_is_started(cluster: Cluster, bare_node: NodeState) -> None:
    cluster.stop(f"kubelet-{bare_node.name}")
    cluster.run("delete", "node", bare_node.name)
    cluster.start_node(bare_node.name)
    assert cluster.get("node", bare_node.name)["status"]["conditions"]


def test_a_small_disk_is_full_and_gone_again(cluster: Cluster, bare_node: NodeState) -> None:
    folder = "/var/lib/small"
    with node_faults.small_disk(cluster, bare_node.name, folder, 4) as disk:
        filling = node_faults.fill(disk, leave_bytes=1 << 16)
        assert filling.stat().st_size == (4 << 20) - (1 << 16)
        assert cluster.on_node(bare_node.name, "ls", folder).split() == ["filling"]
        with pytest.raises(OSError, match="No space left"):
            (disk / "more").write_bytes(bytes(1 << 17))
    assert cluster.on_node(bare_node.name, "ls", folder) == ""


def test_a_port_is_taken_by_a_foreign_process_and_free_again(cluster: Cluster, bare_node: NodeState) -> None:
    with node_faults.occupied_port(cluster, bare_node.name, PORT):
        socket.create_connection((bare_node.address, PORT), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((bare_node.address, PORT), timeout=5)
