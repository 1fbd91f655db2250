"""A model in the cloud: at the URL that is said, exposed as it is wanted, with as many replicas as are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.builds import JSON
from tests.cluster.operator import Operator
from tests.cluster.rig.waiting import until
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.team import Team, ask, number, team_of

HPA_SECONDS = 120.0
"""The controller-manager looks at autoscalers every 15 s."""
LOAD_BALANCER = {
    "type": "LoadBalancer",
    "annotations": {"balancer.example/idle": "60"},
    "loadBalancerClass": "balancer.example/tested",
    "loadBalancerSourceRanges": ["10.88.0.0/16"],
}
RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}}


@pytest.fixture(scope="module")
def world(operator: Operator, shelf: Shelf) -> Iterator[Team]:
    """Models that are all applied at once; each test looks at its own."""
    with team_of(operator.cluster) as team:
        usual: JSON = {"manifest": shelf.manifest("v1"), "targetVersion": "v1"}
        team.serve("node-port", **usual, nodeName="edge-0", resources=RESOURCES)
        team.serve("balanced", **usual, service=LOAD_BALANCER, nodeSelector={"kubernetes.io/hostname": "cloud-0"})
        team.serve("unsaid", **usual, service=None)
        team.serve("inside", **usual, service={"type": "ClusterIP"})
        team.serve("none", **usual, replicas=0)
        team.serve("nowhere", **usual, nodeSelector={"example.com/gpu": "yes"})
        for name, replicas, low, high in (("raised", 1, 2, 3), ("lowered", 2, 1, 1)):
            team.serve(name, **usual, replicas=replicas)
            team.create(autoscaler(name, low, high))
        yield team


def autoscaler(name: str, low: int, high: int) -> JSON:
    """An HPA on the InferenceModel, which needs no metrics to keep replicas between `low` and `high`."""
    target = {"apiVersion": "sedna.io/v1alpha1", "kind": "InferenceModel", "name": name}
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    metrics = [{"type": "Resource", "resource": resource}]
    spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high, "metrics": metrics}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": spec,
    }


def address(team: Team, node: str) -> str:
    return team.cluster.node(node).address


def service(team: Team, name: str) -> JSON:
    """The Service of an InferenceModel."""
    (found,) = (each for each in team.owned(team.uid(name)) if each.startswith("Service/"))
    return team.get(found)


def node_port(team: Team, name: str) -> int:
    return int(service(team, name)["spec"]["ports"][0]["nodePort"])


# Where it answers ---------------------------------------------------------------------------------------------------


def test_a_model_answers_where_its_status_says(world: Team) -> None:
    world.ready("node-port")
    status = world.status("node-port")
    assert status["url"] == f"http://{address(world, 'edge-0')}:{node_port(world, 'node-port')}/v1/models/node-port"
    answer = world.ask("node-port")
    assert (number(answer), answer.headers["x-model-version"]) == (1, "v1")
    assert (status["servingVersion"], status["replicas"], status["readyReplicas"]) == ("v1", 1, 1)
    assert world.conditions("node-port")["Available"]["status"] == "True"
    infer = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}]}
    v2 = status["url"].replace("/v1/models/node-port", "/v2/models/node-port/infer")
    assert ask(v2, body=json.dumps(infer).encode()).json["outputs"][0]["data"] == [2.0, 3.0]


def test_the_service_has_the_models_name_and_a_column_tells_the_url(world: Team) -> None:
    world.ready("node-port")
    assert service(world, "node-port")["metadata"]["name"] == "node-port"
    printed = world.kubectl("get", "infm", "node-port")
    assert world.status("node-port")["url"] in printed, printed


def test_a_service_is_exposed_by_a_load_balancer_as_the_spec_has_it(world: Team) -> None:
    world.ready("balanced")
    found = service(world, "balanced")
    assert found["spec"]["type"] == "LoadBalancer"
    assert found["spec"]["loadBalancerClass"] == LOAD_BALANCER["loadBalancerClass"]
    assert found["spec"]["loadBalancerSourceRanges"] == LOAD_BALANCER["loadBalancerSourceRanges"]
    assert found["metadata"]["annotations"]["balancer.example/idle"] == "60"


def test_the_url_is_the_node_port_until_the_load_balancer_has_an_address_and_then_that(world: Team) -> None:
    world.ready("balanced")
    node = address(world, "cloud-0")
    assert world.url("balanced") == f"http://{node}:{node_port(world, 'balanced')}/v1/models/balanced"
    assert world.value("balanced") == 1
    given = address(world, "edge-0")
    service_name = service(world, "balanced")["metadata"]["name"]
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": given}]}}}
    patch = ("patch", "service", service_name, "--subresource=status", "--type=merge", "--patch", json.dumps(ingress))
    world.kubectl(*patch)
    balanced = f"http://{given}:8501/v1/models/balanced"
    world.wait(lambda: world.url("balanced") == balanced, "the URL to be the load balancer's", "balanced")
    until(lambda: answered(f"{balanced}:predict") == 1, "an answer of the load balancer")


def test_a_load_balancer_is_what_a_service_is_if_nothing_else_is_said(world: Team) -> None:
    world.ready("unsaid")
    assert service(world, "unsaid")["spec"]["type"] == "LoadBalancer"
    assert world.value("unsaid") == 1


def test_a_service_for_who_is_inside_has_a_name_of_the_cluster(world: Team) -> None:
    world.ready("inside")
    found = service(world, "inside")
    assert found["spec"]["type"] == "ClusterIP"
    assert "nodePort" not in found["spec"]["ports"][0]
    assert world.url("inside") == f"http://inside.{world.namespace}.svc.cluster.local:8501/v1/models/inside"
    inside = f"http://{found['spec']['clusterIP']}:8501/v1/models/inside:predict"
    asked = world.cluster.on_node("edge-0", "curl", "-sS", "-d", '{"instances": [[0, 1]]}', inside)
    assert json.loads(asked)["predictions"] == [[1.0, 2.0]]


def test_who_is_reached_by_nobody_outside_says_so(world: Team) -> None:
    world.ready("unsaid")
    without = [
        {"op": "replace", "path": "/spec/allocateLoadBalancerNodePorts", "value": False},
        {"op": "remove", "path": "/spec/ports/0/nodePort"},
    ]
    name = service(world, "unsaid")["metadata"]["name"]
    world.kubectl("patch", "service", name, "--type=json", "--patch", json.dumps(without))
    assert "load balancer" in world.said("unsaid", "NotExposed")
    assert world.url("unsaid").startswith(f"http://{name}.{world.namespace}.svc.cluster.local:8501/")
    assert world.conditions("unsaid")["Available"]["status"] == "True"


def answered(url: str) -> float | None:
    """What a URL answers; None where nobody does."""
    try:
        return number(ask(url, seconds=2, patience=0))
    except (OSError, AssertionError):
        return None


# How it runs --------------------------------------------------------------------------------------------------------


def test_its_pods_have_probes_resources_and_no_right_that_they_do_not_need(world: Team) -> None:
    world.ready("node-port")
    (pod,) = world.pods("node-port")
    (server,) = pod["spec"]["containers"]
    assert server["resources"] == RESOURCES
    assert {"livenessProbe", "readinessProbe"} <= set(server)
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert not [volume for volume in pod["spec"]["volumes"] if "projected" in volume]
    assert pod["spec"]["nodeName"] == "edge-0"
    for container in (server, *pod["spec"].get("initContainers", ())):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
    (balanced,) = world.pods("balanced")
    assert balanced["spec"]["nodeName"] == "cloud-0"


def test_a_selector_that_no_node_has_is_said(world: Team) -> None:
    message = world.said("nowhere", "Unschedulable")
    assert "example.com/gpu" in message or "node affinity/selector" in message, message
    assert world.conditions("nowhere")["Available"]["status"] == "False"


def test_no_replicas_are_no_pods_and_some_come_when_they_are_wanted(world: Team) -> None:
    assert "nothing runs" in world.said("none", "ScaledToZero")
    assert world.is_ready("none")
    assert world.pods("none") == []
    assert "url" not in world.status("none")
    world.kubectl("scale", "infm/none", "--replicas=1")
    world.ready("none")
    assert world.value("none") == 1
    world.kubectl("scale", "infm/none", "--replicas=0")
    world.said("none", "ScaledToZero")
    world.wait(lambda: "url" not in world.status("none"), "the URL to go", "none")
    world.wait(lambda: world.pods("none") == [], "the Pods to go", "none")


def test_kubectl_scales_a_model_and_a_budget_protects_two_replicas_and_more(world: Team) -> None:
    world.ready("inside")
    assert budgets(world, "inside") == []
    world.kubectl("scale", "infm/inside", "--replicas=3")
    world.ready("inside")
    status = world.status("inside")
    assert (status["replicas"], status["readyReplicas"], len(world.pods("inside"))) == (3, 3, 3)
    (budget,) = budgets(world, "inside")
    assert budget["spec"]["maxUnavailable"] == 1
    allowed = "jsonpath={.status.disruptionsAllowed}"
    named = ("get", "poddisruptionbudget", budget["metadata"]["name"], "-o", allowed)
    until(lambda: world.kubectl(*named) == "1", "the budget to allow one disruption")
    path = f"/apis/sedna.io/v1alpha1/namespaces/{world.namespace}/inferencemodels/inside/scale"
    scale = json.loads(world.kubectl("get", "--raw", path))
    assert scale["spec"]["replicas"] == scale["status"]["replicas"] == 3
    assert scale["status"]["selector"] == status["selector"]
    world.kubectl("scale", "infm/inside", "--replicas=1")
    world.wait(lambda: budgets(world, "inside") == [], "the budget to go", "inside")
    world.ready("inside")


def budgets(team: Team, name: str) -> list[JSON]:
    found = [each for each in team.owned(team.uid(name)) if each.startswith("PodDisruptionBudget/")]
    return [team.get(each) for each in found]


@pytest.mark.parametrize(("name", "wanted"), [("raised", 2), ("lowered", 1)])
def test_an_autoscaler_raises_and_lowers_the_replicas(world: Team, name: str, wanted: int) -> None:
    world.wait(lambda: spec(world, name)["replicas"] == wanted, f"{wanted} replicas of {name}", name, HPA_SECONDS)
    world.ready(name)
    world.wait(lambda: len(world.pods(name)) == wanted, f"{wanted} Pods of {name}", name)
    assert world.value(name) == 1


def spec(team: Team, name: str) -> Any:
    return team.model(name)["spec"]


def test_nobody_but_who_asked_has_ever_written_the_replicas(world: Team, operator: Operator) -> None:
    """By the field managers of the object, and by the audit log: the operator writes the status, and no spec."""
    world.ready("raised")
    found = world.get("inferencemodels.sedna.io", "raised", "--show-managed-fields")["metadata"]["managedFields"]
    wrote = {each["manager"] for each in found if "f:replicas" in each["fieldsV1"].get("f:spec", {})}
    assert wrote <= {"kubectl", "kube-controller-manager"}, wrote
    user = f"system:serviceaccount:{operator.namespace}:{operator.name}"
    written = [
        event["requestURI"]
        for event in world.cluster.audit_events()
        if event["user"].get("username") == user
        and event["verb"] in {"create", "update", "patch"}
        and event.get("objectRef", {}).get("resource") == "inferencemodels"
        and event["objectRef"].get("subresource") != "status"
        and event["objectRef"].get("namespace") == world.namespace
    ]
    assert written == []
