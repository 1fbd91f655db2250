"""Models at the edge on a real kube-apiserver: scheduler and kubelet are the test's own hand."""

from __future__ import annotations

import msgspec
import pytest
from tests.contract.edge_models import a_model, memory, said, serves, serving, told
from tests.contract.edge_parts import JOBS, PRIVILEGED, SERVING, Edge, a_namespace, node_of, until

from modelwright.adapters.kubernetes.resource import NAMESPACES
from modelwright.adapters.kubernetes.servers.keeper_lines import digest
from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import PODS
from modelwright.ports.serving import TASK_ANNOTATION, KeeperState
from modelwright.ports.workloads import Container, Failure, Placement, Progress, ServerStatus, VersionStatus

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
replace = msgspec.structs.replace


async def test_a_model_at_the_edge_is_one_pod_on_its_node_whose_agent_says_how_far_it_is(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_model(owner, node))
    pod = await edge.has_pod("serve")
    spec = pod["spec"]
    assert node_of(pod) == node
    assert spec["hostNetwork"] is True
    assert spec["dnsPolicy"] == "Default"
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert {"operator": "Exists"} in spec["tolerations"]
    assert "initContainers" not in spec
    keeper, server = spec["containers"]
    assert server["ports"] == [{"name": "http", "containerPort": 8501, "hostPort": 8501, "protocol": "TCP"}]
    assert {each["imagePullPolicy"] for each in spec["containers"]} == {"IfNotPresent"}
    assert keeper["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert server["securityContext"]["runAsNonRoot"] is True

    status = await until(workloads, owner, lambda seen: seen.replicas == 1)
    assert not status.up_to_date
    edge.logs.put("serve", "keeper", said(pod, settled=False, serving="", progress=Progress(3, 7)))
    await edge.runs(pod, ready=False)
    status = await until(workloads, owner, lambda seen: seen.versions[0].phase == "Fetching")
    assert status.versions[0].progress == Progress(3, 7)
    edge.logs.put("serve", "keeper", said(pod))
    await edge.runs(pod)
    status = await until(workloads, owner, serving("v1"))
    assert (status.host, status.port, status.node_name) == ("127.0.0.1", 8501, node)
    assert status.ready_replicas == 1
    assert status.failure is None


async def test_another_version_is_told_to_the_running_pod_and_not_believed_before_it_says_so(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, version="v2"))
    after = await edge.has_pod("serve")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    status = await until(workloads, owner, lambda seen: not seen.up_to_date)
    assert status.serving_version == "v1"  # the agent's line of the former task says nothing of the new one
    edge.logs.put("serve", "keeper", said(after, "v2"))
    await until(workloads, owner, serving("v2"))


async def test_the_same_again_writes_nothing(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node))
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        await later.apply(a_model(owner, node))
        await until(later, owner, serving("v1"))
    after = await edge.has_pod("serve")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_any_other_change_replaces_the_pod_and_waits_for_the_former_to_end(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, port=8600))
    going = await edge.has_pod("serve")
    assert going["metadata"]["uid"] == before["metadata"]["uid"]
    assert going["metadata"]["deletionTimestamp"]
    await edge.gone(going)
    after = await edge.has_pod("serve", but=before["metadata"]["uid"])
    assert after["spec"]["containers"][1]["ports"][0]["hostPort"] == 8600
    assert await edge.pods(owner, "sweep") == []


async def test_what_would_be_refused_leaves_what_serves_alone(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node))
    await edge.client.merge_patch(
        NAMESPACES, "", edge.namespace, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}
    )
    await workloads.apply(a_model(owner, node, port=8600))
    status = await until(workloads, owner, told("PodSecurityForbids"))
    assert status.ready_replicas == 1
    now = await edge.has_pod("serve")
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in now["metadata"]


async def test_what_a_quota_has_no_room_for_even_in_its_place_leaves_what_serves_alone(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node, resources=memory("1Gi")))
    await edge.has_memory("4Gi", "3Gi")
    await workloads.apply(a_model(owner, node, resources=memory("6Gi")))
    status = await until(workloads, owner, told("QuotaExceeded"))
    assert status.ready_replicas == 1
    assert "deletionTimestamp" not in (await edge.has_pod("serve"))["metadata"]
    await workloads.apply(a_model(owner, node, resources=memory("1500Mi")))  # there is room in the place of the former
    await edge.goes("serve")
    await edge.gone(before)


async def test_a_namespace_that_forbids_it_is_told_with_the_command_and_it_begins_once_it_may(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    edge.namespace = await a_namespace(edge.client, **{"pod-security.kubernetes.io/enforce": "restricted"})
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_model(owner, node))
    status = await until(workloads, owner, told("PodSecurityForbids"))
    assert status.failure is not None
    assert status.failure.retryable
    label = "pod-security.kubernetes.io/enforce=privileged"
    assert f"kubectl label --overwrite ns {edge.namespace} {label}" in status.failure.message
    await edge.client.merge_patch(NAMESPACES, "", edge.namespace, {"metadata": {"labels": PRIVILEGED}})
    await edge.has_pod("serve")
    status = await until(workloads, owner, lambda seen: seen.replicas == 1)
    assert status.failure is None


async def test_a_node_that_is_not_there_is_waited_for(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner = await edge.owner()
    name = f"late-{edge.namespace}"
    await workloads.apply(a_model(owner, name))
    status = await until(workloads, owner, told("NodeNotFound"))
    assert status.failure is not None
    assert name in status.failure.message
    await edge.node(name)
    assert node_of(await edge.has_pod("serve")) == name


async def test_of_several_nodes_the_first_that_is_ready_is_chosen_and_kept(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner = await edge.owner()
    nodes = [f"{name}-{edge.namespace}" for name in ("a", "b", "c")]
    await edge.node(nodes[0], ready="False")
    for name in nodes[1:]:
        await edge.node(name)
    server = a_model(owner, placement=Placement("edge", node_selector={"rack": edge.label}))
    await workloads.apply(server)
    assert node_of(await edge.has_pod("serve")) == nodes[1]
    status = await until(workloads, owner, lambda seen: bool(seen.notices))
    assert status.notices[0].reason == "NodeChosen"
    assert nodes[1] in status.notices[0].message
    await edge.node_is(nodes[0], "True")
    await edge.node_is(nodes[1], "Unknown")
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        await later.apply(server)
        assert node_of(await edge.has_pod("serve")) == nodes[1]


async def test_two_models_cannot_have_one_port_of_a_node_and_the_first_keeps_it(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    first, second, node = await edge.owner("first"), await edge.owner("second"), await edge.node()
    await workloads.apply(a_model(first, node))
    await edge.has_pod("serve")
    other = replace(a_model(second, node), name="other")
    await workloads.apply(other)
    status = await until(workloads, second, told("PortTaken"), "other")
    assert status.failure is not None
    assert f"ConfigMap {edge.namespace}/first" in status.failure.message
    assert await edge.pods(second) == []
    await workloads.remove(first.uid, "serve")
    await edge.has_pod("other")


async def test_a_pod_that_somebody_deleted_or_the_node_evicted_is_made_again(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    first = await serves(edge, workloads, a_model(owner, node))
    await edge.gone(first)
    second = await edge.has_pod("serve", but=first["metadata"]["uid"])
    await edge.runs(second)
    body = {"status": {"phase": "Failed", "reason": "Evicted", "message": "the disk is full"}}
    await edge.client.merge_patch(PODS, edge.namespace, "serve", body, subresource="status")
    third = await edge.has_pod("serve", but=second["metadata"]["uid"])
    assert node_of(third) == node
    assert await edge.pods(owner, "sweep") == []


async def test_a_node_that_does_not_answer_is_said_and_nothing_is_replaced(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await edge.node_is(node, "Unknown")
    status = await until(workloads, owner, told("NodeLost"))
    assert (status.ready_replicas, status.up_to_date, status.node_name) == (0, False, node)
    await workloads.apply(a_model(owner, node))
    await edge.node_is(node, "True")
    await until(workloads, owner, serving("v1"))
    assert (await edge.has_pod("serve"))["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_after_a_restart_of_the_operator_the_status_is_known_from_what_is_there(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    await serves(edge, workloads, a_model(owner, node))
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        assert owner in await later.owners()
        status = await until(later, owner, lambda seen: seen.serving_version == "v1")
        assert (status.ready_replicas, status.port, status.up_to_date) == (1, 8501, False)


async def test_why_a_server_ends_is_told(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_model(owner, node))
    pod = await edge.has_pod("serve")
    message = '{"failure": {"reason": "PortInUse", "message": "cannot listen on 0.0.0.0:8501"}}'
    over = {"exitCode": 1, "reason": "Error", "message": message}
    last = {"lastState": {"terminated": over}, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "ready": False}
    await edge.runs(pod, ready=False, server={**last, "restartCount": 3})
    status = await until(workloads, owner, told("PortInUse"))
    assert status.restarts == 3
    killed = {**last, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    await edge.runs(await edge.has_pod("serve"), ready=False, server=killed)
    status = await until(workloads, owner, told("OOMKilled"))
    assert status.failure is not None
    assert "resources.limits.memory" in status.failure.message


async def test_a_version_that_cannot_be_had_is_told_while_the_former_serves(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, version="v2"))
    pod = await edge.has_pod("serve")
    failure = Failure(reason="ChecksumMismatch", message="it has another SHA-256")
    versions = (VersionStatus(version="v2", phase="Failed", failure=failure),)
    state = KeeperState(task=digest(pod["metadata"]["annotations"][TASK_ANNOTATION]), serving="v1", versions=versions)
    edge.logs.put("serve", "keeper", msgspec.json.encode(state) + b"\n")
    status = await until(workloads, owner, lambda seen: bool(seen.versions) and seen.versions[0].phase == "Failed")
    assert (status.serving_version, status.ready_replicas, status.up_to_date) == ("v1", 1, False)
    assert status.versions[0].failure == failure


async def test_an_image_at_the_edge_runs_alone_and_leaves_nothing(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    server = replace(a_model(owner, node), program=Container(image="hub.example/mine:1", pull_secret="login"))
    await workloads.apply(server)
    pod = await edge.has_pod("serve")
    assert [each["name"] for each in pod["spec"]["containers"]] == ["server"]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "login"}]
    assert pod["metadata"]["ownerReferences"][0]["uid"] == owner.uid
    await edge.runs(pod)
    status: ServerStatus = await until(workloads, owner, lambda seen: seen.up_to_date)
    assert (status.ready_replicas, status.serving_version, status.versions) == (1, "", ())
    await workloads.remove(owner.uid, "serve")
    assert await edge.pods(owner, "sweep") == []
