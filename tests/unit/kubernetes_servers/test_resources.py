"""What containers of ours may use is an admin's to say, wherever they run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_servers import cloud_support, edge_support

from modelwright.adapters.kubernetes.servers import (
    edge_faults,
    edge_model,
    gateway_pod,
    image_volumes,
    server_failures,
    sweep_pods,
)
from modelwright.adapters.kubernetes.servers.cloud_pod import pod_template
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.workloads import Gateway, Resources

JSON = dict[str, Any]
AGENT = Resources({"cpu": "20m", "memory": "96Mi"}, {"cpu": "1", "memory": "256Mi"})
GATEWAY = Resources({"memory": "100Mi"}, {"cpu": "2", "memory": "200Mi"})
SETTINGS = msgspec.structs.replace(edge_support.SETTINGS, agent_resources=AGENT, gateway_resources=GATEWAY)
GATEWAY_PROGRAM = Gateway(name="digits", edge_url="http://192.0.2.7:8501/v1/models/s", cloud_url="http://l.example/")


def containers(settings: ServerSettings) -> dict[str, JSON]:
    """The containers that are ours, by what they are called."""
    edge = edge_model.render(edge_support.a_model(), "edge-0", settings).body["spec"]
    gateway = gateway_pod.render(edge_support.a_model(program=GATEWAY_PROGRAM), "edge-0", settings).body["spec"]
    sweep = sweep_pods.render(edge_support.OWNER, "resnet-serve", "edge-0", settings, kept=False)["spec"]
    cloud = pod_template(cloud_support.a_server(), settings, mounted=False)["spec"]
    probe = image_volumes.probe("p", Node(name="cloud-0"), settings)["spec"]
    found = [*edge["containers"], *gateway["containers"], *sweep["containers"], *probe["containers"]]
    return {each["name"]: each for each in (*found, *cloud["initContainers"])}


def test_each_container_of_ours_is_given_what_an_admin_says() -> None:
    found = containers(SETTINGS)
    for name in ("fetch", "keeper", "sweep", "probe"):
        assert found[name]["resources"] == {"requests": AGENT.requests, "limits": AGENT.limits}, name
    assert found["gateway"]["resources"] == {"requests": GATEWAY.requests, "limits": GATEWAY.limits}


def test_none_is_left_to_what_a_namespace_gives_by_default() -> None:
    for name in ("fetch", "keeper", "sweep", "probe", "gateway"):
        given = containers(edge_support.SETTINGS)[name]["resources"]
        assert set(given["requests"]) == {"cpu", "memory"}, name
        assert "memory" in given["limits"], name


def test_an_admin_may_want_none_at_all() -> None:
    settings = msgspec.structs.replace(SETTINGS, agent_resources=Resources(), gateway_resources=Resources())
    assert all(not containers(settings)[name]["resources"] for name in ("fetch", "keeper", "sweep", "probe", "gateway"))


def test_what_was_ended_for_its_memory_names_whoever_can_give_it_more() -> None:
    over = {"exitCode": 137, "reason": "OOMKilled"}
    for name, said in (("keeper", "serving.agentResources"), ("gateway", "serving.gatewayResources")):
        status = edge_support.container(name, terminated=over)
        rendered = edge_model.render(edge_support.a_model(), "edge-0", SETTINGS)
        failure = edge_faults.pod_failure(
            edge_support.pod_of(rendered, containerStatuses=[status]), None, edge_support.NOW
        )
        assert failure is not None
        assert (failure.reason, said in failure.message) == ("OOMKilled", True)


@pytest.mark.parametrize(
    ("containers", "said"),
    [
        ({"fetch": cloud_support.ended(137, reason="OOMKilled")}, "serving.agentResources"),
        ({"server": cloud_support.ended(137, reason="OOMKilled")}, "resources.limits.memory"),
    ],
)
def test_in_the_cloud_too(containers: JSON, said: str) -> None:
    pod = cloud_support.a_pod(cloud_support.rendered(cloud_support.a_server()), **containers)
    failure = server_failures.of_pod(pod, cloud_support.NOW)
    assert failure is not None
    assert (failure.reason, said in failure.message) == ("OOMKilled", True)
