"""Without the cloud the edge goes on; what is killed meanwhile comes back from what the node keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from tests.cluster.edge.edge_team import EdgeTeam
from tests.cluster.rig.waiting import until
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.team import INFERENCE_MODEL, ask, number
from tests.cluster.serving.traffic import Traffic

NAME = "adder"
PATIENCE = 180.0
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.fixture(scope="module")
def served(edge: EdgeTeam, shelf: Shelf) -> EdgeTeam:
    """The edge model `adder`, which serves v1."""
    edge.serve_here(NAME, manifest=shelf.manifest("v1", "v2"), targetVersion="v1")
    edge.ready(NAME)
    return edge


@contextmanager
def cut_off(team: EdgeTeam) -> Iterator[None]:
    """The node without its cable, noticed by the cloud and later than Pods leave other nodes for that."""
    team.cluster.cut(team.node.name)
    try:
        yield
    finally:
        team.cluster.mend(team.node.name)


def evictions_are_due(team: EdgeTeam) -> bool:
    """Whether a Pod that anybody might have made has been deleted, because its node is lost."""
    return team.kubectl("get", "pod", "witness", "--ignore-not-found", "-o", "name") == ""


def witness(team: EdgeTeam) -> None:
    """A Pod on the node as anybody makes it, which is evicted when the node is lost for long."""
    pod = team.pod(NAME)
    spec = {
        "hostNetwork": True,
        "affinity": pod["spec"]["affinity"],
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            {"key": UNREACHABLE, "operator": "Exists", "effect": "NoSchedule"},
            {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        ],
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "waits", "image": f"{team.cluster.registry}/pause:1"}],
    }
    team.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "witness"}, "spec": spec})
    team.kubectl("wait", "--for=condition=Ready", "pod/witness", "--timeout=120s")


def answers(url: str, value: float) -> bool:
    """Whether the model at this URL answers this, asked from outside of the node."""
    try:
        return number(ask(f"{url}:predict", seconds=5, patience=0)) == value
    except (OSError, AssertionError):
        return False


def recovered(team: EdgeTeam, traffic: Traffic, since: float) -> float:
    """When the model answered again, in seconds after that moment."""

    def first() -> float | None:
        good = [answer for answer in traffic.report.since(since).answers if not answer.failed]
        return good[0].began + good[0].took - since if good else None

    team.wait(lambda: first() is not None, "the model to answer again", NAME, PATIENCE)
    return first() or 0.0


def test_cut_off_for_longer_than_evictions_it_goes_on_and_what_is_killed_comes_back_from_the_node(
    served: EdgeTeam, shelf: Shelf
) -> None:
    witness(served)
    pod = served.pod(NAME)
    downloaded, restarts = shelf.downloads.count("v1.tar"), served.restarts(NAME)["server"]
    with served.inside(NAME) as traffic:
        traffic.more()
        with cut_off(served):
            until(partial(evictions_are_due, served), "the node to be given up by others", PATIENCE, 0.5)
            assert served.pod(NAME)["metadata"]["uid"] == pod["metadata"]["uid"]
            traffic.more()
            assert traffic.report.failures == []
            killed = time.monotonic()
            served.cluster.kill_container(served.namespace, pod["metadata"]["name"], "server")
            traffic.more(5)
            recovered(served, traffic, killed + 0.5)
        mended = time.monotonic()
        served.ready(NAME)
        print(f"true again {time.monotonic() - mended:.1f} s after the node was back")
    assert served.pod(NAME)["metadata"]["uid"] == pod["metadata"]["uid"]
    assert served.restarts(NAME)["server"] == restarts + 1
    assert shelf.downloads.count("v1.tar") == downloaded
    assert traffic.report.answers[-1].value == 1


def test_the_cloud_says_that_the_node_is_lost_and_keeps_everything(served: EdgeTeam) -> None:
    uid = served.pod(NAME)["metadata"]["uid"]
    with cut_off(served):
        served.said(NAME, "NodeLost")
        assert served.pod(NAME)["metadata"]["uid"] == uid
    served.ready(NAME)
    assert served.pod(NAME)["metadata"]["uid"] == uid


def test_what_is_wanted_while_the_node_is_cut_off_is_done_when_it_is_back(served: EdgeTeam) -> None:
    with served.inside(NAME) as traffic:
        traffic.more()
        with cut_off(served):
            served.change(NAME, targetVersion="v2")
            served.said(NAME, "NodeLost")
            assert traffic.more().answers[-1].value == 1
        served.ready(NAME)
        traffic.answers(2)
    assert traffic.report.failures == []
    served.change(NAME, targetVersion="v1")
    served.ready(NAME)


def test_after_the_power_failed_while_cut_off_it_serves_from_the_node_once_the_link_is_back(
    served: EdgeTeam, shelf: Shelf
) -> None:
    downloaded, uid = shelf.downloads.count("v1.tar"), served.pod(NAME)["metadata"]["uid"]
    url = served.url(NAME)
    with cut_off(served):
        served.cluster.kill_node(served.node.name)
    began = time.monotonic()
    served.cluster.start_node(served.node.name)
    served.wait(partial(answers, url, 1), "the model to answer again", NAME)
    print(f"answers {time.monotonic() - began:.1f} s after kubelet and link were back")
    served.ready(NAME)
    assert shelf.downloads.count("v1.tar") == downloaded
    assert served.pod(NAME)["metadata"]["uid"] == uid


@pytest.mark.parametrize("container", ["server", "keeper"])
def test_a_killed_container_comes_back_from_the_node(served: EdgeTeam, shelf: Shelf, container: str) -> None:
    downloaded, restarts = shelf.downloads.count("v1.tar"), served.restarts(NAME)[container]
    pod = served.pod(NAME)["metadata"]
    with served.traffic(NAME) as traffic:
        traffic.more()
        served.cluster.kill_container(served.namespace, pod["name"], container)
        served.wait(lambda: served.restarts(NAME)[container] > restarts, f"{container} to be started again", NAME)
        recovered(served, traffic, time.monotonic())
    served.ready(NAME)
    assert shelf.downloads.count("v1.tar") == downloaded
    assert served.pod(NAME)["metadata"]["uid"] == pod["uid"]
    if container == "keeper":
        assert traffic.report.failures == []


def test_without_a_kubelet_it_goes_on(served: EdgeTeam) -> None:
    kubelet = f"kubelet-{served.node.name}"
    with served.traffic(NAME) as traffic:
        served.cluster.stop(kubelet, kill=True)
        try:
            traffic.more()
        finally:
            served.cluster.start(kubelet)
        served.ready(NAME)
    assert traffic.report.failures == []


def test_of_a_node_that_is_gone_for_good_nothing_holds_on(served: EdgeTeam, shelf: Shelf) -> None:
    """Last in this module: the node forgets all of its Pods."""
    served.cluster.stop(f"kubelet-{served.node.name}")
    served.cluster.run("delete", "node", served.node.name)
    try:
        served.said(NAME, "NodeNotFound")
        uid = served.uid(NAME)
        served.kubectl("delete", INFERENCE_MODEL, NAME, "--timeout=120s")
        served.wait(lambda: served.owned(uid) == [], "nothing to be left of it")
    finally:
        served.cluster.start_node(served.node.name)
    served.serve_here("again", manifest=shelf.manifest("v2"), targetVersion="v2")
    served.ready("again")
    assert served.value("again") == 2
