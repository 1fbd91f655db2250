"""The Pods that remove what a node has kept."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from tests.unit.kubernetes_servers.edge_support import NOW, OWNER, SETTINGS, at

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import sweep_pods
from modelwright.adapters.kubernetes.workloads.kinds import Pod


def stored(body: JSON, age: float) -> Pod:
    metadata = {**body["metadata"], "uid": "u", "resourceVersion": "7", "creationTimestamp": at(age)}
    return msgspec.convert({**body, "metadata": metadata}, Pod)


def test_one_that_its_node_has_ended_is_followed_by_another_that_is_there_before_it_goes() -> None:
    first = sweep_pods.render(OWNER, "resnet-serve", "edge-0", SETTINGS, kept=False)
    second = sweep_pods.successor(stored(first, 60), SETTINGS)
    assert second["metadata"].pop("name") != first["metadata"]["name"]
    assert {**second, "metadata": {**second["metadata"], "name": first["metadata"]["name"]}} == first


def test_it_is_followed_by_one_of_the_first_name_again_and_all_know_their_server() -> None:
    body = sweep_pods.render(OWNER, "resnet-serve", "edge-0", SETTINGS, kept=False)
    names = []
    for _ in range(3):
        names.append(body["metadata"]["name"])
        pod = stored(body, 60)
        assert sweep_pods.server_of(pod) == "resnet-serve"
        body = sweep_pods.successor(pod, SETTINGS)
    assert names[0] == names[2] != names[1]


def test_there_is_a_pause_between_two_of_them() -> None:
    pod = stored(sweep_pods.render(OWNER, "resnet-serve", "edge-0", SETTINGS, kept=False), 1)
    assert not sweep_pods.is_over_for_long(pod, NOW)
    assert sweep_pods.is_over_for_long(pod, NOW + timedelta(seconds=60))
