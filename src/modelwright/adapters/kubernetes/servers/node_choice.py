"""Which node a server of the edge runs on: a pure function of the nodes that there are, and the one that it has."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.ports.workloads import Failure, Placement, SeenNotice

EDGE_LABEL = "node-role.kubernetes.io/edge"
"""What KubeEdge labels its nodes with: they are chosen from where neither a name nor a selector is given."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The node; None with the failure that says why there is none. `notice` where it was one of several."""

    node: Node | None = None
    failure: Failure | None = None
    notice: SeenNotice | None = None


def choose(placement: Placement, nodes: Sequence[Node], current: str) -> Choice:
    """The node for this placement; `nodes` are sorted by name.

    `current` is the node that it has: it stays there as long as that node is there and wanted, since the models and the
    address are there. So an edge node that does not answer is waited for, never replaced by another.
    """
    if placement.node_name:
        return _named(placement, nodes)
    found = _candidates(placement, nodes, current)
    if not found:
        return Choice(failure=_none(placement))
    if len(found) == 1:
        return Choice(node=found[0])
    chosen = next((node for node in found if node.name == current), None) or _first(found)
    return Choice(node=chosen, notice=_chosen(chosen, found, placement))


def _named(placement: Placement, nodes: Sequence[Node]) -> Choice:
    node = next((node for node in nodes if node.name == placement.node_name), None)
    if node is None:
        message = (
            f"there is no node {placement.node_name}: it begins when there is. `kubectl get nodes` lists those that "
            "there are"
        )
        return Choice(failure=Failure(reason="NodeNotFound", message=message, retryable=True))
    missing = {key: value for key, value in placement.node_selector.items() if node.labels.get(key) != value}
    if missing:
        message = (
            f"the node {node.name} has not the labels {_spelled(missing)} of nodeSelector: label it, or leave one of "
            "nodeName and nodeSelector out"
        )
        return Choice(failure=Failure(reason="NodeNotFound", message=message, retryable=True))
    return Choice(node=node)


def _candidates(placement: Placement, nodes: Sequence[Node], current: str) -> list[Node]:
    """In the cloud a node that repels is not gone to, and not left either: a taint may mean that it does not answer."""
    selector = placement.node_selector
    if selector:
        return [node for node in nodes if all(node.labels.get(key) == value for key, value in selector.items())]
    if placement.layer == "edge":
        return [node for node in nodes if EDGE_LABEL in node.labels]
    return [node for node in nodes if node.name == current or (not node.repels and EDGE_LABEL not in node.labels)]


def _first(found: Sequence[Node]) -> Node:
    """The first that is ready, else the first that answers at all (without a container network no node is ready)."""
    for state in ("True", "False"):
        for node in found:
            if node.ready == state:
                return node
    return found[0]


def _none(placement: Placement) -> Failure:
    if placement.node_selector:
        message = (
            f"no node has the labels {_spelled(placement.node_selector)} of nodeSelector: it begins when one has. "
            "`kubectl get nodes --show-labels` lists what there is"
        )
    elif placement.layer == "edge":
        message = (
            f"neither nodeName nor nodeSelector is given, and no node has the label {EDGE_LABEL}: name a node of the "
            "edge in nodeName, or label one"
        )
    else:
        message = "there is no node that takes Pods without tolerations: name one in nodeName"
    return Failure(reason="NodeNotFound", message=message, retryable=True)


def _chosen(chosen: Node, found: Sequence[Node], placement: Placement) -> SeenNotice:
    by = f"the labels {_spelled(placement.node_selector)}" if placement.node_selector else f"the label {EDGE_LABEL}"
    by = by if placement.node_selector or placement.layer == "edge" else "room for it"
    message = (
        f"{len(found)} nodes have {by}, and {chosen.name} was chosen; it stays there as long as that node exists. "
        "nodeName chooses another"
    )
    return SeenNotice(reason="NodeChosen", message=message)


def _spelled(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
