"""Whether a Pod will fit once its predecessor is gone is read from what the quota admission says."""

from __future__ import annotations

from typing import Any

import pytest

from modelwright.adapters.kubernetes.servers.quota_room import has_room_without


def pod(*amounts: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "spec": {
            "containers": [{"name": "a", "resources": each} for each in amounts],
            "initContainers": [{"name": "i", "resources": each} for each in init],
        }
    }


SMALL = pod({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}, {})


def refusal(requested: str, used: str, limited: str) -> str:
    return f'pods "serve" is forbidden: exceeded quota: few, requested: {requested}, used: {used}, limited: {limited}'


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        (refusal("pods=1", "pods=1", "pods=1"), True),
        (refusal("pods=1", "pods=2", "pods=1"), False),
        (refusal("count/pods=1", "count/pods=5", "count/pods=5"), True),
        (refusal("limits.memory=2Gi", "limits.memory=1Gi", "limits.memory=2Gi"), True),
        (refusal("limits.memory=5Gi", "limits.memory=1Gi", "limits.memory=4Gi"), False),
        (refusal("limits.memory=2Gi", "limits.memory=3Gi", "limits.memory=4Gi"), True),
        (refusal("limits.memory=2Gi", "limits.memory=3073Mi", "limits.memory=4Gi"), False),
        (refusal("cpu=200m", "cpu=900m", "cpu=1"), True),
        (refusal("requests.cpu=200m", "requests.cpu=901m", "requests.cpu=1"), False),
        (refusal("pods=1,requests.memory=3Gi", "pods=1,requests.memory=1Gi", "pods=1,requests.memory=2Gi"), False),
        (refusal("requests.nvidia.com/gpu=1", "requests.nvidia.com/gpu=1", "requests.nvidia.com/gpu=1"), False),
    ],
)
def test_what_the_predecessor_gives_back_is_counted(said: str, fits: bool) -> None:
    assert has_room_without(SMALL, said) is fits


def test_containers_that_begin_first_give_back_too() -> None:
    former = pod({"limits": {"memory": 1024}}, init=({"limits": {"memory": "1Gi"}},))
    assert has_room_without(former, refusal("limits.memory=1Gi", "limits.memory=1Gi", "limits.memory=1Gi"))


def test_what_the_pod_itself_asks_for_is_given_back_too() -> None:
    said = refusal("limits.memory=1Gi", "limits.memory=1Gi", "limits.memory=1Gi")
    assert has_room_without({"spec": {"resources": {"limits": {"memory": "1Gi"}}}}, said)
    assert has_room_without({"spec": {"overhead": {"memory": "1Gi"}}}, said)
    assert not has_room_without({"spec": {"overhead": {"memory": "1Mi"}}}, said)


@pytest.mark.parametrize(
    "said", ["exceeded quota: few", refusal("pods=x", "pods=1", "pods=1"), refusal("pods", "pods", "pods"), ""]
)
def test_what_cannot_be_read_is_tried(said: str) -> None:
    assert has_room_without(SMALL, said)


@pytest.mark.parametrize("former", [{}, {"spec": None}, {"spec": {"containers": [{"name": "a", "resources": None}]}}])
def test_a_pod_that_asks_for_nothing_gives_nothing_back(former: dict[str, Any]) -> None:
    assert not has_room_without(former, refusal("limits.memory=2Gi", "limits.memory=1Gi", "limits.memory=2Gi"))
