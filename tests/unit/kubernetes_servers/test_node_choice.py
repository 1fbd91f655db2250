"""Which node a server runs on."""

from __future__ import annotations

import msgspec
import pytest

from modelwright.adapters.kubernetes.servers.node_choice import EDGE_LABEL, choose
from modelwright.adapters.kubernetes.servers.node_mirror import Node, read_node
from modelwright.ports.workloads import Placement

RACK = {"rack": "7"}
A = Node(name="a", labels=RACK, ready="False")
B = Node(name="b", labels=RACK, ready="True")
C = Node(name="c", labels={**RACK, EDGE_LABEL: ""}, ready="True")
D = Node(name="d", labels={EDGE_LABEL: ""}, ready="Unknown", repels=True)
NODES = [A, B, C, D]
BY_RACK, ANYWHERE, CLOUD = Placement("edge", "", RACK), Placement("edge"), Placement("cloud")


@pytest.mark.parametrize(
    ("placement", "current", "chosen"),
    [
        (Placement("edge", "d"), "", "d"),
        (Placement("edge", "a", RACK), "c", "a"),
        (BY_RACK, "", "b"),
        (BY_RACK, "c", "c"),
        (BY_RACK, "a", "a"),
        (BY_RACK, "gone", "b"),
        (Placement("edge", "", {EDGE_LABEL: "", "rack": "7"}), "", "c"),
        (ANYWHERE, "", "c"),
        (ANYWHERE, "d", "d"),
        (CLOUD, "", "b"),
        (CLOUD, "a", "a"),
        (CLOUD, "d", "d"),
        (CLOUD, "gone", "b"),
    ],
)
def test_the_node_is_that_which_is_named_else_the_one_it_has_else_the_first_that_is_ready(
    placement: Placement, current: str, chosen: str
) -> None:
    choice = choose(placement, NODES, current)
    assert choice.node is not None
    assert choice.node.name == chosen
    assert choice.failure is None


@pytest.mark.parametrize(
    ("nodes", "chosen"),
    [
        ([A, msgspec.structs.replace(B, ready="Unknown")], "a"),
        ([msgspec.structs.replace(A, ready="Unknown"), msgspec.structs.replace(B, ready="Unknown")], "a"),
    ],
)
def test_where_none_is_ready_one_that_answers_is_better_than_one_that_does_not(nodes: list[Node], chosen: str) -> None:
    node = choose(BY_RACK, nodes, "").node
    assert node is not None
    assert node.name == chosen


@pytest.mark.parametrize(
    ("placement", "nodes", "said"),
    [
        (Placement("edge", "e"), NODES, "no node e"),
        (Placement("edge", "d", RACK), NODES, "d has not the labels rack=7"),
        (Placement("edge", "", {"rack": "8"}), NODES, "no node has the labels rack=8"),
        (ANYWHERE, [A, B], "neither nodeName nor nodeSelector"),
        (CLOUD, [D], "no node that takes Pods"),
    ],
)
def test_what_no_node_fits_is_told_and_waited_for(placement: Placement, nodes: list[Node], said: str) -> None:
    choice = choose(placement, nodes, "")
    assert choice.node is None
    assert choice.failure is not None
    assert (choice.failure.reason, choice.failure.retryable) == ("NodeNotFound", True)
    assert said in choice.failure.message


def test_that_one_of_several_was_chosen_is_told_and_of_one_it_is_not() -> None:
    notice = choose(BY_RACK, NODES, "").notice
    assert notice is not None
    assert (notice.reason, notice.message[:9]) == ("NodeChosen", "3 nodes h")
    assert choose(BY_RACK, [B], "").notice is None
    assert choose(Placement("edge", "b"), NODES, "").notice is None


def test_a_node_is_read_as_far_as_it_is_asked_for() -> None:
    body = {
        "metadata": {"name": "n", "uid": "u", "resourceVersion": "9", "labels": {"a": "b"}},
        "spec": {"taints": [{"effect": "PreferNoSchedule"}, {"effect": "NoSchedule"}]},
        "status": {
            "addresses": [{"type": "Hostname", "address": "n"}, {"type": "ExternalIP", "address": "203.0.113.9"}],
            "conditions": [{"type": "Ready", "status": "False"}],
        },
    }
    node, version = read_node(msgspec.json.encode(body))
    assert (version, node.ready, node.repels, node.labels) == ("9", "False", True, {"a": "b"})
    assert node.address == "203.0.113.9"
    assert read_node(b'{"metadata": {"name": "n"}}')[0] == Node(name="n")
