"""The design's own way: two InferenceModels, and a Pod with the gateway's image that somebody has written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import yaml
from tests.cluster.edge import pairs
from tests.cluster.edge.edge_team import PORTS, EdgeTeam
from tests.cluster.edge.pairs import EASY, HARD, body
from tests.cluster.edge.troubled import Trouble, Troubled
from tests.cluster.image import CHECKOUT
from tests.cluster.serving.team import ask
from tests.cluster.serving.traffic import Traffic

MANIFEST = CHECKOUT / "examples/cluster/pods/gateway.yaml"


def by_hand(team: EdgeTeam, image: str, name: str, cloud: str) -> str:
    """Apply the example with this name, image, node and models; where it answers, once it does."""
    port = next(PORTS)
    pod: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    pod["metadata"]["name"] = name
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms["nodeSelectorTerms"][0]["matchFields"][0]["values"] = [team.node.name]
    (container,) = pod["spec"]["containers"]
    edge = team.url("small").replace(team.node.address, "127.0.0.1")
    changed = {
        "http://127.0.0.1:8501/v1/models/digits-edge": edge,
        "CLOUD-URL": cloud,
        "[::]:8500": f"[::]:{port}",
        "--timeout=2": "--timeout=1",
    }
    for old, new in changed.items():
        assert any(old in word for word in container["args"])
        container["args"] = [word.replace(old, new) for word in container["args"]]
    container["image"] = image
    container["ports"] = [{"name": "http", "containerPort": port, "hostPort": port}]
    team.create(pod)
    team.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=180s")
    return f"http://{team.node.address}:{port}/v1/models/digits"


@pytest.fixture
def gateway_image(joined: EdgeTeam) -> str:
    """The image that the operator has the gateways run with."""
    (container,) = joined.gateway("jis/digits")["spec"]["containers"]
    return str(container["image"])


def test_a_pod_of_ones_own_joins_two_inference_models(joined: EdgeTeam, gateway_image: str) -> None:
    url = by_hand(joined, gateway_image, "own", joined.url("large"))
    joined.wait(lambda: pairs.said(ask(f"{url}:predict", body=body(EASY, HARD)))[1] == "mixed", "both to be asked")
    assert pairs.said(ask(f"{url}:predict", body=body(EASY, HARD, EASY))) == ([0, 101, 0], "mixed")
    joined.kubectl("delete", "pod", "own")


@pytest.fixture
def troubled(joined: EdgeTeam) -> Iterator[Troubled]:
    """Something in the cloud that is no good."""
    with Troubled(joined.cluster.state.names.gateway) as server:
        yield server


def test_whatever_the_cloud_answers_every_request_is_answered_by_the_edge(
    joined: EdgeTeam, gateway_image: str, troubled: Troubled
) -> None:
    url = by_hand(joined, gateway_image, "lonely", f"http://{troubled.host}/v1/models/large")
    with Traffic(f"{url}:predict", body=body(HARD)) as traffic:
        for trouble in get_args(Trouble):
            troubled.trouble, asked = trouble, troubled.asked
            joined.wait(lambda asked=asked: troubled.asked > asked, f"the cloud to be asked: {trouble}")
            traffic.more(10)
    report = traffic.report
    assert report.failures == []
    assert set(report.served_by) == {"edge"}
    assert set(report.values) == {1}
    joined.kubectl("delete", "pod", "lonely")
