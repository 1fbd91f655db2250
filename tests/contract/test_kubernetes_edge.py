"""Models at the edge on a real kube-apiserver: scheduler and kubelet are the test's own hand."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.edge_parts import PRIVILEGED, Edge, a_namespace, eventually, kubelet_logs, node_of, until
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.operators import kubeconfig_at
from tests.contract.tunnel import tunnel

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES
from modelwright.adapters.kubernetes.servers.catalogue_builtin import builtin
from modelwright.adapters.kubernetes.servers.keeper_lines import digest
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.servers.sweep_pods import KEPT_OF
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import NODES, PODS
from modelwright.ports.errors import Unavailable
from modelwright.ports.serving import TASK_ANNOTATION, KeeperState
from modelwright.ports.workloads import (
    Container,
    Failure,
    ModelImage,
    ModelServer,
    Owner,
    Placement,
    Progress,
    Resources,
    ServedVersion,
    Server,
    ServerStatus,
    VersionStatus,
)

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
SERVING = ServerSettings(agent_image="hub.example/modelwright:1", gateway_image="hub.example/gw:1", catalogue=builtin())
JOBS = JobSettings(agent_image="hub.example/modelwright:1")
replace = msgspec.structs.replace


@pytest.fixture
async def client(kube_apiserver: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(load_kubeconfig([kube_apiserver.kubeconfig])) as client:
        yield client


@pytest.fixture
async def edge(client: KubernetesClient, tmp_path: Path) -> AsyncIterator[Edge]:
    async with kubelet_logs(tmp_path) as logs:
        yield Edge(client, logs, await a_namespace(client, **PRIVILEGED))


@pytest.fixture
async def workloads(client: KubernetesClient) -> AsyncIterator[KubernetesWorkloads]:
    async with KubernetesWorkloads(client, JOBS, SERVING) as workloads:
        yield workloads


def a_model(owner: Owner, node: str = "", *, version: str = "v1", port: int = 8501, **more: Any) -> Server:
    source = ModelImage(image=f"hub.example/m@sha256:{version.encode().hex():0>64}")
    program = ModelServer(
        model_name="resnet",
        framework="onnx",
        versions=(ServedVersion(version, 1, source),),
        default=version,
        in_place=True,
    )
    placement = more.pop("placement", Placement("edge", node))
    return Server(name="serve", owner=owner, program=program, port=port, placement=placement, **more)


def said(pod: JSON, version: str = "v1", *, settled: bool = True, **more: Any) -> bytes:
    """A line of the agent's, about the task that the Pod has now."""
    task = digest(pod["metadata"]["annotations"][TASK_ANNOTATION])
    phase = more.pop("phase", "Ready" if settled else "Fetching")
    versions = (VersionStatus(version=version, phase=phase, progress=more.pop("progress", None)),)
    state = KeeperState(task=task, settled=settled, versions=versions, **{"serving": version, **more})
    return b"a line for people\n" + msgspec.json.encode(state) + b"\n"


def told(reason: str) -> Any:
    return lambda status: status.failure is not None and status.failure.reason == reason


def serving(version: str) -> Any:
    return lambda status: status.up_to_date and status.serving_version == version


async def serves(edge: Edge, workloads: KubernetesWorkloads, server: Server) -> JSON:
    """Apply it, and play scheduler, kubelet and agent until it serves."""
    assert isinstance(server.program, ModelServer)
    await workloads.apply(server)
    pod = await edge.has_pod(server.name)
    edge.logs.put(server.name, "keeper", said(pod, server.program.default))
    await edge.runs(pod)
    await until(workloads, server.owner, serving(server.program.default), server.name)
    return await edge.has_pod(server.name)


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


async def test_a_namespace_that_forbids_it_is_told_with_the_command_and_it_begins_once_it_may(
    client: KubernetesClient, edge: Edge, workloads: KubernetesWorkloads
) -> None:
    edge.namespace = await a_namespace(client, **{"pod-security.kubernetes.io/enforce": "restricted"})
    owner, node = await edge.owner(), await edge.node()
    await workloads.apply(a_model(owner, node))
    status = await until(workloads, owner, told("PodSecurityForbids"))
    assert status.failure is not None
    assert status.failure.retryable
    label = "pod-security.kubernetes.io/enforce=privileged"
    assert f"kubectl label --overwrite ns {edge.namespace} {label}" in status.failure.message
    await client.merge_patch(NAMESPACES, "", edge.namespace, {"metadata": {"labels": PRIVILEGED}})
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


# Another image of the operator's -------------------------------------------------------------------------------------

UPGRADED = replace(SERVING, agent_image="hub.example/modelwright:2")


def deferred(status: ServerStatus) -> bool:
    return status.up_to_date and [each.reason for each in status.notices] == ["UpgradeDeferred"]


async def test_the_operators_new_images_come_to_as_many_pods_at_once_as_have_them_and_the_others_serve_on(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owners = {name: await edge.owner(name) for name in ("one", "two", "three")}
    servers = {name: replace(a_model(owner, await edge.node()), name=name) for name, owner in owners.items()}
    before = {name: await serves(edge, workloads, server) for name, server in servers.items()}
    await workloads.aclose()

    async def upgrade(later: KubernetesWorkloads, *names: str) -> None:
        for server in servers.values():
            await later.apply(server)
        for name in names:
            await until(later, owners[name], deferred, name)
            pod = await edge.has_pod(name)
            assert pod["metadata"]["uid"] == before[name]["metadata"]["uid"]
            assert "deletionTimestamp" not in pod["metadata"]

    async def goes(name: str) -> None:
        async def going() -> bool:
            return "deletionTimestamp" in (await edge.has_pod(name))["metadata"]

        await eventually(going)
        await edge.gone(before[name])

    async with KubernetesWorkloads(edge.client, JOBS, UPGRADED) as later:
        await upgrade(later, "two", "three")
        servers["two"] = replace(a_model(owners["two"], servers["two"].placement.node_name, version="v2"), name="two")
        await later.apply(servers["two"])  # the Pod that waits is told what its user wants
        pod = await edge.has_pod("two")
        assert '"default":"v2"' in pod["metadata"]["annotations"][TASK_ANNOTATION]
        edge.logs.put("two", "keeper", said(pod, "v2"))
        await until(later, owners["two"], serving("v2"), "two")
        await goes("one")
        first = await edge.has_pod("one", but=before["one"]["metadata"]["uid"])
        assert first["spec"]["containers"][0]["image"] == "hub.example/modelwright:2"
    async with KubernetesWorkloads(edge.client, JOBS, UPGRADED) as later:  # the Pod itself tells that it waits
        await upgrade(later, "two", "three")
        servers["three"] = replace(servers["three"], port=8600)
        await later.apply(servers["three"])
        await goes("three")  # what the user wants waits for nobody
        third = await edge.has_pod("three", but=before["three"]["metadata"]["uid"])
        await edge.runs(first)
        await until(later, owners["two"], deferred, "two")
        await edge.runs(third)
        await goes("two")
        await edge.has_pod("two", but=before["two"]["metadata"]["uid"])


async def test_what_is_on_a_node_that_does_not_answer_keeps_its_images_until_it_does(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, node))
    await workloads.aclose()
    await edge.node_is(node, "Unknown")
    async with KubernetesWorkloads(edge.client, JOBS, UPGRADED) as later:
        await later.apply(a_model(owner, node))
        status = await until(later, owner, told("NodeLost"))
        assert [each.reason for each in status.notices] == ["UpgradeDeferred"]
        assert "deletionTimestamp" not in (await edge.has_pod("serve"))["metadata"]
        await edge.node_is(node, "True")

        async def going() -> bool:
            return "deletionTimestamp" in (await edge.has_pod("serve"))["metadata"]

        await eventually(going)
        await edge.gone(before)
        await edge.has_pod("serve", but=before["metadata"]["uid"])


# What is kept -------------------------------------------------------------------------------------------------------


async def test_what_a_model_has_kept_is_removed_once_its_pod_is_gone(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.remove(owner.uid, "serve")
    assert await workloads.observe(owner.uid) == ()
    (sweep,) = await edge.pods(owner, "sweep")
    assert sweep["spec"]["schedulingGates"]  # it waits until the model's own Pod has ended
    assert node_of(sweep) == node
    assert "ownerReferences" not in sweep["metadata"]
    async with KubernetesWorkloads(edge.client, JOBS, SERVING):  # another operator takes it from there
        await workloads.aclose()
        await edge.gone(pod)
        name = sweep["metadata"]["name"]

        async def begun() -> bool:
            found = await edge.pod(name)
            return found is not None and not found["spec"].get("schedulingGates")

        await eventually(begun)
        sweep = await edge.has_pod(name)
        (volume,) = [each for each in sweep["spec"]["volumes"] if "hostPath" in each]
        assert volume["hostPath"]["path"] == f"/var/lib/modelwright/models/{edge.namespace}"
        (container,) = sweep["spec"]["containers"]
        assert {"name": "MODELWRIGHT_SWEEP", "value": owner.uid} in container["env"]
        await edge.client.merge_patch(
            PODS, edge.namespace, name, {"status": {"phase": "Succeeded"}}, subresource="status"
        )

        async def cleared() -> bool:
            return await edge.pod(name) is None

        await eventually(cleared)


async def test_scaled_to_zero_the_pod_goes_and_what_is_kept_stays_known(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, replicas=0))
    await edge.gone(pod)
    await until(workloads, owner, lambda seen: seen.up_to_date and seen.replicas == 0)
    (sweep,) = await edge.pods(owner, "sweep")
    assert sweep["spec"]["schedulingGates"]
    await workloads.apply(a_model(owner, node))
    await edge.has_pod("serve")
    assert await edge.pods(owner, "sweep") == []  # what is kept is wanted again


async def test_an_owner_that_went_while_nobody_looked_is_found_by_what_it_has_kept(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, replicas=0))
    await edge.gone(pod)
    await workloads.aclose()
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        assert owner in await later.owners()
        (status,) = await later.observe(owner.uid)
        assert status.name == "serve"
        await later.remove(owner.uid, "serve")
        assert await later.observe(owner.uid) == ()
        assert owner not in await later.owners()

        async def begun() -> bool:
            (found,) = await edge.pods(owner, "sweep")
            return not found["spec"].get("schedulingGates")

        await eventually(begun)


async def test_an_owner_that_goes_while_its_pod_is_replaced_leaves_nothing(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.apply(a_model(owner, node, port=8600))
    assert owner in await workloads.owners()
    await workloads.remove(owner.uid, "serve")
    assert owner not in await workloads.owners()
    (sweep,) = await edge.pods(owner, "sweep")
    await edge.gone(pod)

    async def begun() -> bool:
        (found,) = await edge.pods(owner, "sweep")
        return not found["spec"].get("schedulingGates")

    await eventually(begun)
    assert await edge.pods(owner) == []
    assert node_of(sweep) == node


async def test_a_removal_that_the_api_server_did_not_take_is_made_good_by_the_next(
    edge: Edge, kube_apiserver: KubeApiserver, tmp_path: Path
) -> None:
    owner, node = await edge.owner(), await edge.node()
    address = load_kubeconfig([kube_apiserver.kubeconfig]).server.rpartition("/")[2]
    async with AsyncExitStack() as stack:
        async with tunnel(address) as port:
            there = kubeconfig_at(kube_apiserver.kubeconfig, f"https://127.0.0.1:{port}", tmp_path / "kubeconfig")
            client = await stack.enter_async_context(KubernetesClient(load_kubeconfig([there])))
            workloads = await stack.enter_async_context(KubernetesWorkloads(client, JOBS, SERVING))
            pod = await serves(edge, workloads, a_model(owner, node))
            await workloads.apply(a_model(owner, node, resources=Resources(limits={"cpu": "2"})))
            await edge.allows("1")
            await edge.gone(pod)
            await until(workloads, owner, told("PodNotCreated"))  # so no Pod tells any more what lies there
        with pytest.raises(Unavailable):
            await workloads.remove(owner.uid, "serve")
        assert [each.name for each in await workloads.observe(owner.uid)] == ["serve"]
        assert owner in await workloads.owners()
        await stack.enter_async_context(tunnel(address, sock=socket.create_server(("127.0.0.1", port))))
        await workloads.remove(owner.uid, "serve")
        assert await workloads.observe(owner.uid) == ()
        (sweep,) = await edge.pods(owner, "sweep")
        assert node_of(sweep) == node


async def test_where_a_quota_has_no_room_for_the_sweeping_pod_it_is_made_once_there_is(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await edge.has_room(1)
    await workloads.apply(a_model(owner, node, replicas=0))
    await edge.gone(pod)
    await until(workloads, owner, lambda seen: seen.up_to_date and seen.replicas == 0)
    assert await edge.pods(owner, "sweep") == []
    await edge.has_room(0)

    async def noted() -> bool:
        return [each["metadata"]["labels"].get(KEPT_OF) for each in await edge.pods(owner, "sweep")] == ["serve"]

    await eventually(noted)
    await workloads.apply(a_model(owner, node))  # the Pod that stood for what is kept makes room
    await edge.has_room(0)
    again = await serves(edge, workloads, a_model(owner, node))
    await edge.has_room(1)
    await workloads.remove(owner.uid, "serve")
    assert await workloads.observe(owner.uid) == ()
    assert await edge.pods(owner, "sweep") == []
    await edge.gone(again)
    await edge.has_room(0)

    async def begun() -> bool:
        return ["schedulingGates" in each["spec"] for each in await edge.pods(owner, "sweep")] == [False]

    await eventually(begun)


async def test_a_pod_that_was_going_when_the_operator_began_leaves_nothing_either(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await workloads.aclose()
    await edge.client.delete(PODS, edge.namespace, "serve", uid=pod["metadata"]["uid"])
    async with KubernetesWorkloads(edge.client, JOBS, SERVING) as later:
        assert owner in await later.owners()
        await later.remove(owner.uid, "serve")
        assert owner not in await later.owners()
        assert len(await edge.pods(owner, "sweep")) == 1


async def test_of_a_node_that_is_gone_for_good_nothing_is_swept(edge: Edge, workloads: KubernetesWorkloads) -> None:
    owner, node = await edge.owner(), await edge.node()
    pod = await serves(edge, workloads, a_model(owner, node))
    await edge.client.delete(NODES, "", node)
    await until(workloads, owner, told("NodeNotFound"))
    await workloads.remove(owner.uid, "serve")

    async def gone() -> bool:
        return await edge.pod("serve") is None

    await eventually(gone)  # no kubelet ends it
    assert await edge.pods(owner, "sweep") == []
    assert pod["metadata"]["name"] == "serve"


async def test_a_model_that_moves_to_another_node_leaves_nothing_on_the_former(
    edge: Edge, workloads: KubernetesWorkloads
) -> None:
    owner, here, there = await edge.owner(), await edge.node(), await edge.node()
    before = await serves(edge, workloads, a_model(owner, here))
    await workloads.apply(a_model(owner, there))
    (sweep,) = await edge.pods(owner, "sweep")
    assert node_of(sweep) == here
    await edge.gone(before)
    assert node_of(await edge.has_pod("serve", but=before["metadata"]["uid"])) == there

    async def begun() -> bool:
        (found,) = await edge.pods(owner, "sweep")
        return not found["spec"].get("schedulingGates")

    await eventually(begun)


# Images as they are -------------------------------------------------------------------------------------------------


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
