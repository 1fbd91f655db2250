"""Servers in the cloud on a real kube-apiserver with real controllers; Pods live by the test's hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.contract.cluster_parts import OURS, bind, running_controllers, say
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource
from modelwright.adapters.kubernetes.servers.catalogue_builtin import builtin
from modelwright.adapters.kubernetes.servers.kinds import BUDGETS, DEPLOYMENTS, SERVICES
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import NODES, PODS
from modelwright.ports.errors import AlreadyExists, NotFound, Retryable
from modelwright.ports.workloads import (
    Container,
    Download,
    Exposure,
    ModelServer,
    Owner,
    Placement,
    Resources,
    ServedVersion,
    Server,
    ServerStatus,
)

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
DEADLINE = 90.0
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
RANGES = Resource("", "v1", "limitranges", "LimitRange")
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
    "namespace-controller",
)
SERVING = ServerSettings(
    agent_image="hub.example.com/modelwright:1", gateway_image="hub.example.com/gateway:1", catalogue=builtin()
)
NAME = "owner-serve-1"
replace = msgspec.structs.replace


@pytest.fixture(scope="module")
def controlled(kube_apiserver: KubeApiserver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """The API server of the session, with controllers."""
    programs, folder = kube_apiserver.kubectl.parent, tmp_path_factory.mktemp("controllers")
    with running_controllers(programs, folder, kube_apiserver, CONTROLLERS):
        yield kube_apiserver


@pytest.fixture
async def client(controlled: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(load_kubeconfig([controlled.kubeconfig])) as client:
        yield client


class Place:
    """A namespace that lets in what is *restricted*, and owners in it."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def owner(self, name: str = "owner") -> Owner:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        made = await self.client.create(MAPS, self.namespace, body)
        return Owner("v1", "ConfigMap", self.namespace, name, made["metadata"]["uid"])

    async def all(self, resource: Resource, labels: str = OURS) -> list[JSON]:
        return await self.client.list(resource, Selection(self.namespace, labels))

    async def one(self, resource: Resource) -> JSON:
        (found,) = await self.all(resource)
        return found

    async def versions(self) -> dict[str, str]:
        """The version of each object of ours: what is written gets another."""
        found = [each for resource in (DEPLOYMENTS, SERVICES, BUDGETS) for each in await self.all(resource)]
        return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in found}

    async def made_by(self, manager: str) -> list[JSON]:
        """What this manager has written, and when: of all objects of ours."""
        found = [each for resource in (DEPLOYMENTS, SERVICES, BUDGETS) for each in await self.all(resource)]
        entries = [entry for each in found for entry in each["metadata"]["managedFields"]]
        return [entry for entry in entries if entry["manager"] == manager]

    async def pods(self, count: int) -> list[JSON]:
        """The Pods that the controllers make, as soon as there are so many that are not going."""
        async with asyncio.timeout(DEADLINE):
            while True:
                found = [pod for pod in await self.all(PODS) if "deletionTimestamp" not in pod["metadata"]]
                if len(found) == count:
                    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))
                await asyncio.sleep(0.05)

    async def ready(self, pod: JSON, node: str) -> None:
        """As scheduler and kubelet have it once its server answers."""
        if "nodeName" not in pod["spec"]:
            await bind(self.client, pod, node)
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        main = {"name": "server", "image": "a", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        conditions = [{"type": each, "status": "True"} for each in ("Ready", "ContainersReady", "PodScheduled")]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [main], "podIP": "10.244.0.9"}
        await say(self.client, PODS, pod, **status)


@pytest.fixture
async def place(client: KubernetesClient) -> Place:
    name = fresh_name("servers")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    await client.create(NAMESPACES, "", body)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await client.create(Resource("", "v1", "serviceaccounts", "ServiceAccount"), name, account)
    return Place(client, name)


@pytest.fixture
async def node(client: KubernetesClient) -> AsyncIterator[str]:
    """A node with an address of its own."""
    name = fresh_name("node")
    made = await client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    conditions = [{"type": "Ready", "status": "True"}]
    await say(client, NODES, made, conditions=conditions, addresses=[{"type": "InternalIP", "address": "192.0.2.77"}])
    yield name
    await client.delete(NODES, "", name)


@pytest.fixture
async def workloads(client: KubernetesClient) -> AsyncIterator[KubernetesWorkloads]:
    async with KubernetesWorkloads(client, JobSettings(agent_image="a"), SERVING) as workloads:
        yield workloads


def a_server(owner: Owner, version: str = "v1", **more: Any) -> Server:
    versions = (ServedVersion(version, 1, Download(f"https://files.example.com/{version}.tar", "5" * 64)),)
    program = ModelServer(model_name="m", framework="onnx", versions=versions, default=version)
    wanted = {"program": program, "port": 8501, "exposure": Exposure(), **more}
    return Server(name=NAME, owner=owner, **wanted)


async def applied(workloads: KubernetesWorkloads, server: Server) -> None:
    """As the engine does: what may be mended by trying again is tried again."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await workloads.apply(server)
            except Retryable:
                await asyncio.sleep(0.1)
            else:
                return


async def until(workloads: KubernetesWorkloads, uid: str, done: Callable[[ServerStatus], bool]) -> ServerStatus:
    async with asyncio.timeout(DEADLINE):
        while True:
            for status in await workloads.observe(uid):
                if isinstance(status, ServerStatus) and done(status):
                    return status
            await asyncio.sleep(0.05)


# Making -------------------------------------------------------------------------------------------------------------


async def test_a_server_is_a_deployment_and_a_service_named_like_its_owner(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    deployment, service = await place.one(DEPLOYMENTS), await place.one(SERVICES)
    assert deployment["metadata"]["name"] == NAME
    assert (service["metadata"]["name"], service["spec"]["type"]) == ("owner", "LoadBalancer")
    assert await place.all(BUDGETS) == []
    for child in (deployment, service):
        (reference,) = child["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (owner.uid, True)
    (pod,) = await place.pods(1)  # a namespace that enforces `restricted` takes it
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert {each.name for each in await workloads.observe(owner.uid)} == {NAME}


async def test_the_same_again_writes_nothing_whoever_applies_it(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient
) -> None:
    server = a_server(await place.owner(), replicas=2)
    await workloads.apply(server)
    await place.pods(2)
    await until(workloads, server.owner.uid, lambda status: status.replicas == 2)
    before = await place.made_by("modelwright")
    await workloads.apply(server)
    async with KubernetesWorkloads(client, JobSettings(agent_image="a"), SERVING) as later:
        await later.apply(server)
    assert await place.made_by("modelwright") == before


async def test_a_namespace_that_counts_limits_takes_what_an_admin_gives_them(
    place: Place, client: KubernetesClient
) -> None:
    metadata, hard = {"name": "all"}, {"limits.cpu": "4", "limits.memory": "4Gi", "requests.memory": "4Gi"}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
    quota = await client.create(QUOTAS, place.namespace, body)
    await say(client, QUOTAS, quota, hard=hard, used=dict.fromkeys(hard, "0"))
    usual = [{"type": "Container", "default": {"memory": "128Mi"}}]
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": usual}}
    await client.create(RANGES, place.namespace, body)
    server = a_server(await place.owner(), resources=Resources(limits={"cpu": "1", "memory": "1Gi"}))
    async with KubernetesWorkloads(client, JobSettings(agent_image="a"), SERVING) as usual_ones:
        await usual_ones.apply(server)
        failed = await until(usual_ones, server.owner.uid, lambda status: status.failure is not None)
        assert failed.failure is not None
        assert "must specify limits.cpu for: fetch" in failed.failure.message
        assert "serving.agentResources" in failed.failure.message
    given = replace(SERVING.agent_resources, limits={"cpu": "500m", "memory": "512Mi"})
    admins = replace(SERVING, agent_resources=given)
    async with KubernetesWorkloads(client, JobSettings(agent_image="a"), admins) as workloads:
        await applied(workloads, server)
        (pod,) = await place.pods(1)
    (fetch,) = pod["spec"]["initContainers"]
    assert fetch["resources"] == {"requests": given.requests, "limits": given.limits}


async def test_what_is_no_longer_wanted_is_taken_out_of_the_objects(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    placed = Placement(node_selector={"disk": "ssd"})
    exposure = Exposure(annotations={"lb.example.com/kind": "small"}, load_balancer_source_ranges=("10.0.0.0/8",))
    await workloads.apply(a_server(owner, placement=placed, exposure=exposure, token_secret="t"))
    await applied(workloads, a_server(owner))
    spec = (await place.one(DEPLOYMENTS))["spec"]["template"]["spec"]
    service = await place.one(SERVICES)
    assert "nodeSelector" not in spec
    assert {volume["name"] for volume in spec["volumes"]} == {"models", "run", "tmp"}
    assert "lb.example.com/kind" not in service["metadata"]["annotations"]
    assert "loadBalancerSourceRanges" not in service["spec"]


async def test_a_budget_is_there_from_two_replicas_on(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner, replicas=2))
    assert (await place.one(BUDGETS))["spec"]["maxUnavailable"] == 1
    await applied(workloads, a_server(owner, replicas=1))
    assert await place.all(BUDGETS) == []


async def test_a_service_of_somebody_else_is_left_alone(place: Place, workloads: KubernetesWorkloads) -> None:
    theirs = {"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}, "metadata": {"name": "owner"}}
    await place.client.create(SERVICES, place.namespace, {"apiVersion": "v1", "kind": "Service", **theirs})
    await workloads.apply(a_server(await place.owner()))
    assert (await place.one(SERVICES))["metadata"]["name"] == NAME
    there = await place.client.get(SERVICES, place.namespace, "owner")
    assert there["spec"]["selector"] == {"a": "b"}


async def test_a_deployment_of_somebody_else_is_left_alone(place: Place, workloads: KubernetesWorkloads) -> None:
    first, second = await place.owner(), await place.owner("other")
    await workloads.apply(a_server(first))
    with pytest.raises(AlreadyExists) as refused:
        await workloads.apply(a_server(second, version="v2"))
    assert refused.value.reason == "NameTaken"
    containers = (await place.one(DEPLOYMENTS))["spec"]["template"]["metadata"]["annotations"]
    assert containers["modelwright.dev/version"] == "v1"


async def test_a_former_owners_service_is_waited_for(place: Place, workloads: KubernetesWorkloads) -> None:
    former = await place.owner()
    await workloads.apply(a_server(former))
    await place.client.delete(MAPS, place.namespace, "owner")
    owner = await place.owner()
    await applied(workloads, replace(a_server(owner), name="owner-serve-2"))
    async with asyncio.timeout(DEADLINE):
        while len(found := await place.all(SERVICES)) != 1:
            await asyncio.sleep(0.1)
    assert found[0]["metadata"]["name"] == "owner"
    assert found[0]["metadata"]["ownerReferences"][0]["uid"] == owner.uid


async def test_another_class_of_load_balancer_takes_another_service(
    place: Place, workloads: KubernetesWorkloads
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner, exposure=Exposure(load_balancer_class="example.com/a")))
    before = (await place.one(SERVICES))["metadata"]["uid"]
    await applied(workloads, a_server(owner, exposure=Exposure(load_balancer_class="example.com/b")))
    service = await place.one(SERVICES)
    assert service["spec"]["loadBalancerClass"] == "example.com/b"
    assert service["metadata"]["uid"] != before


@pytest.mark.parametrize("type_", ["NodePort", "ClusterIP"])
async def test_the_type_and_port_of_a_service_change_in_place(
    place: Place, workloads: KubernetesWorkloads, type_: Any
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    before = await place.one(SERVICES)
    await applied(workloads, a_server(owner, port=9000, exposure=Exposure(type=type_)))
    service = await place.one(SERVICES)
    assert service["metadata"]["uid"] == before["metadata"]["uid"]
    assert service["spec"]["type"] == type_
    assert [port["port"] for port in service["spec"]["ports"]] == [9000]
    assert ("nodePort" in service["spec"]["ports"][0]) == (type_ == "NodePort")


# Hands --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_others_have_edited_is_put_right(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient, restarted: bool
) -> None:
    server = a_server(await place.owner())
    await workloads.apply(server)
    image = (await place.one(DEPLOYMENTS))["spec"]["template"]["spec"]["containers"][0]["image"]
    edit = {"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "server", "image": "busybox"}]}}}}
    path = DEPLOYMENTS.path(place.namespace, NAME)
    strategic = {"Content-Type": "application/strategic-merge-patch+json"}
    await client.raw("PATCH", path, {"fieldManager": "x"}, headers=strategic, body=msgspec.json.encode(edit))
    await client.merge_patch(SERVICES, place.namespace, "owner", {"spec": {"type": "ClusterIP"}})

    async def right() -> None:
        async with asyncio.timeout(DEADLINE):
            while True:
                await applied(used, server)
                deployment, service = await place.one(DEPLOYMENTS), await place.one(SERVICES)
                (container,) = deployment["spec"]["template"]["spec"]["containers"]
                done = (deployment["spec"]["replicas"], container["image"], service["spec"]["type"])
                if done == (1, image, "LoadBalancer"):
                    return
                await asyncio.sleep(0.1)

    if restarted:
        async with KubernetesWorkloads(client, JobSettings(agent_image="a"), SERVING) as used:
            await right()
    else:
        used = workloads
        await right()


OWNERLESS = {"metadata": {"ownerReferences": None}}


@pytest.mark.parametrize("restarted", [False, True])
async def test_an_owner_that_somebody_takes_away_is_given_back(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient, node: str, restarted: bool
) -> None:
    server = a_server(await place.owner(), replicas=2)
    await workloads.apply(server)
    for pod in await place.pods(2):
        await place.ready(pod, node)
    await until(workloads, server.owner.uid, lambda status: status.up_to_date)
    for resource, name in ((DEPLOYMENTS, NAME), (SERVICES, "owner"), (BUDGETS, NAME)):
        await client.merge_patch(resource, place.namespace, name, OWNERLESS)
        status = await until(workloads, server.owner.uid, lambda status: not status.up_to_date)
        assert (status.ready_replicas, status.serving_version) == (2, "v1"), "what serves goes on being told"
        if restarted:
            async with KubernetesWorkloads(client, JobSettings(agent_image="a"), SERVING) as later:
                await applied(later, server)
        else:
            await applied(workloads, server)
        (reference,) = (await client.get(resource, place.namespace, name))["metadata"]["ownerReferences"]
        assert (reference["uid"], reference["controller"]) == (server.owner.uid, True)
        await until(workloads, server.owner.uid, lambda status: status.up_to_date)
    assert len(await place.all(SERVICES)) == 1


async def test_what_somebody_else_has_taken_over_is_left_to_them(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient
) -> None:
    owner, other = await place.owner(), await place.owner("other")
    await workloads.apply(a_server(owner))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other.uid, "controller": True}
    theirs = {"metadata": {"ownerReferences": [reference]}}
    await client.merge_patch(DEPLOYMENTS, place.namespace, NAME, theirs)
    await client.merge_patch(SERVICES, place.namespace, "owner", theirs)
    await until(workloads, owner.uid, lambda status: not status.replicas)
    with pytest.raises(AlreadyExists) as refused:
        await workloads.apply(a_server(owner, replicas=2))
    assert refused.value.reason == "NameTaken"
    deployment = await place.one(DEPLOYMENTS)
    assert (deployment["metadata"]["ownerReferences"], deployment["spec"]["replicas"]) == ([reference], 1)
    await client.delete(DEPLOYMENTS, place.namespace, NAME)
    await applied(workloads, a_server(owner))
    assert {each["metadata"]["name"] for each in await place.all(SERVICES)} == {"owner", NAME}
    there = await client.get(SERVICES, place.namespace, "owner")
    assert there["metadata"]["ownerReferences"] == [reference]


async def test_an_edit_that_came_between_is_seen_at_the_next_try(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient
) -> None:
    server = a_server(await place.owner())
    await workloads.apply(server)
    for number in range(20):
        await client.merge_patch(DEPLOYMENTS, place.namespace, NAME, {"metadata": {"labels": {"n": str(number)}}})
        await applied(workloads, replace(server, replicas=number % 2))
        assert (await place.one(DEPLOYMENTS))["spec"]["replicas"] == number % 2


# Seeing -------------------------------------------------------------------------------------------------------------


async def test_it_serves_once_its_pods_are_ready(place: Place, workloads: KubernetesWorkloads, node: str) -> None:
    owner = await place.owner()
    news = workloads.changes()
    await workloads.apply(a_server(owner, replicas=2))
    for pod in await place.pods(2):
        await place.ready(pod, node)
    status = await until(workloads, owner.uid, lambda status: status.up_to_date)
    port = (await place.one(SERVICES))["spec"]["ports"][0]["nodePort"]
    assert (status.host, status.port, status.exposed) == ("192.0.2.77", port, True)
    assert (status.ready_replicas, status.serving_version) == (2, "v1")
    async with asyncio.timeout(DEADLINE):
        async for each in news:
            if each == owner:
                break


async def test_a_load_balancer_is_told_as_soon_as_it_has_an_address(
    place: Place, workloads: KubernetesWorkloads, node: str, client: KubernetesClient
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    (pod,) = await place.pods(1)
    await place.ready(pod, node)
    await say(client, SERVICES, await place.one(SERVICES), loadBalancer={"ingress": [{"ip": "198.51.100.7"}]})
    status = await until(workloads, owner.uid, lambda status: status.host == "198.51.100.7")
    assert (status.port, status.exposed) == (8501, True)


async def test_an_old_version_goes_when_the_new_one_is_ready(
    place: Place, workloads: KubernetesWorkloads, node: str
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    (old,) = await place.pods(1)
    await place.ready(old, node)
    await until(workloads, owner.uid, lambda status: status.up_to_date)
    await applied(workloads, a_server(owner, "v2"))
    new = next(pod for pod in await place.pods(2) if pod["metadata"]["uid"] != old["metadata"]["uid"])
    status = await until(workloads, owner.uid, lambda status: status.replicas == 2)
    assert (status.serving_version, status.up_to_date) == ("v1", False)
    await place.ready(new, node)
    await until(workloads, owner.uid, lambda status: not status.up_to_date and status.replicas == 1)
    await place.client.delete(PODS, place.namespace, old["metadata"]["name"], grace_seconds=0)
    status = await until(workloads, owner.uid, lambda status: status.up_to_date)
    assert (status.serving_version, status.replicas) == ("v2", 1)


async def test_a_download_that_is_wrong_is_said_with_the_agents_words(
    place: Place, workloads: KubernetesWorkloads, node: str, client: KubernetesClient
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    (pod,) = await place.pods(1)
    await bind(client, pod, node)
    report = '{"failure": {"reason": "ChecksumMismatch", "message": "it is another file"}}'
    over = {"exitCode": 1, "reason": "Error", "message": report, "startedAt": None, "finishedAt": None}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    fetch = {"name": "fetch", "image": "a", "imageID": "", "ready": False, "restartCount": 3, "state": state}
    await say(client, PODS, pod, phase="Pending", initContainerStatuses=[{**fetch, "lastState": {"terminated": over}}])
    status = await until(workloads, owner.uid, lambda status: status.failure is not None)
    assert status.failure is not None
    assert (status.failure.reason, status.failure.message) == ("ChecksumMismatch", "it is another file")
    assert [version.phase for version in status.versions] == ["Failed"]


async def test_a_namespace_that_admits_no_such_pod_is_said(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient
) -> None:
    quota = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "none"}}
    limits = [{"type": "Container", "max": {"memory": "1Mi"}}]
    ranges = Resource("", "v1", "limitranges", "LimitRange")
    await client.create(ranges, place.namespace, {**quota, "spec": {"limits": limits}})
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    status = await until(workloads, owner.uid, lambda status: status.failure is not None)
    assert status.failure is not None
    assert status.failure.reason == "PodNotCreated"
    assert "1Mi" in status.failure.message


async def test_an_image_is_served_as_it_is(place: Place, workloads: KubernetesWorkloads, node: str) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner, program=Container(image="hub.example.com/mine:1"), port=9000))
    (pod,) = await place.pods(1)
    assert [each["image"] for each in pod["spec"]["containers"]] == ["hub.example.com/mine:1"]
    await place.ready(pod, node)
    assert (await until(workloads, owner.uid, lambda status: status.up_to_date)).serving_version == ""


# Whose --------------------------------------------------------------------------------------------------------------


async def test_what_runs_is_found_again_by_the_next_operator(
    place: Place, workloads: KubernetesWorkloads, node: str, client: KubernetesClient
) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner))
    (pod,) = await place.pods(1)
    await place.ready(pod, node)
    before = await until(workloads, owner.uid, lambda status: status.up_to_date)
    async with KubernetesWorkloads(client, JobSettings(agent_image="a"), SERVING) as later:
        assert await later.observe(owner.uid) == (before,)
        assert owner in await later.owners()


async def test_what_says_in_another_namespace_that_it_is_ours_is_not_believed(
    place: Place, workloads: KubernetesWorkloads, client: KubernetesClient
) -> None:
    owner, other = await place.owner(), fresh_name("elsewhere")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    await workloads.apply(a_server(owner))
    service = await place.one(SERVICES)
    forged = {"name": "owner", "labels": service["metadata"]["labels"]}
    spec = {"ports": [{"port": 1}], "type": "ExternalName", "externalName": "evil.example.com"}
    await client.create(SERVICES, other, {"apiVersion": "v1", "kind": "Service", "metadata": forged, "spec": spec})
    (status,) = await workloads.observe(owner.uid)
    assert isinstance(status, ServerStatus)
    await workloads.apply(a_server(owner))
    assert (await place.one(SERVICES))["spec"]["type"] == "LoadBalancer"
    await workloads.remove(owner.uid, NAME)
    with pytest.raises(NotFound):
        await client.get(SERVICES, place.namespace, "owner")


async def test_removing_it_leaves_nothing(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner, replicas=2))
    await place.pods(2)
    await workloads.remove(owner.uid, NAME)
    await workloads.remove(owner.uid, NAME)
    for resource in (DEPLOYMENTS, SERVICES, BUDGETS):
        assert await place.all(resource) == []
    await place.pods(0)
    assert await workloads.observe(owner.uid) == ()
    assert owner not in await workloads.owners()


async def test_what_its_owner_leaves_goes_by_itself(place: Place, workloads: KubernetesWorkloads) -> None:
    owner = await place.owner()
    await workloads.apply(a_server(owner, replicas=2))
    await place.pods(2)
    await place.client.delete(MAPS, place.namespace, "owner")
    await place.pods(0)
    servers = workloads._servers
    assert servers is not None
    async with asyncio.timeout(DEADLINE):
        while await place.versions() or await workloads.observe(owner.uid) or servers._cloud._written:
            await asyncio.sleep(0.1)
