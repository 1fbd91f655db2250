"""Whether models are mounted from images or fetched: what a Pod on the node has shown, here by the test's hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.contract.cluster_parts import bind, say
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource
from modelwright.adapters.kubernetes.servers.catalogue_builtin import builtin
from modelwright.adapters.kubernetes.servers.image_volumes import PROBE
from modelwright.adapters.kubernetes.servers.kinds import DEPLOYMENTS
from modelwright.adapters.kubernetes.servers.labels import labels
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import NODES, PODS
from modelwright.ports.errors import Retryable
from modelwright.ports.workloads import (
    Download,
    ModelImage,
    ModelServer,
    ModelSource,
    Owner,
    Placement,
    ServedVersion,
    Server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]
DEADLINE = 90.0
IMAGE = ModelImage("hub.example.com/m@sha256:" + "5" * 64)
INFO = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "",
    "osImage": "",
    "containerRuntimeVersion": "containerd://2.4.2",
    "kubeletVersion": "v1.35.4",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


class Place:
    """A namespace for models, which is the operator's own too, and a node of its own to choose by a label."""

    def __init__(self, client: KubernetesClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.owner = Owner("v1", "ConfigMap", namespace, "owner", "uid-of-" + namespace)
        self.nodes: list[str] = []

    async def node(self) -> str:
        name = fresh_name("node")
        marked = {"name": name, "labels": {"only": self.namespace}}
        made = await self.client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": marked})
        await say(self.client, NODES, made, conditions=[{"type": "Ready", "status": "True"}], nodeInfo=INFO)
        # Whoever makes a node taints it until it is heard; this one is.
        await self.client.merge_patch(NODES, "", name, {"spec": {"taints": None}})
        self.nodes.append(name)
        return name

    def server(self, source: ModelSource = IMAGE, version: str = "v1", replicas: int = 1) -> Server:
        versions = (ServedVersion(version, 1, source),)
        program = ModelServer(model_name="m", framework="onnx", versions=versions, default=version)
        placement = Placement(node_selector={"only": self.namespace})
        return Server(name="s", owner=self.owner, program=program, port=8501, placement=placement, replicas=replicas)

    async def probes(self) -> list[JSON]:
        where = Selection(self.namespace, labels=f"app.kubernetes.io/component={PROBE}")
        return await self.client.list(PODS, where)

    async def show(self, phase: str, *, count: int = 1, reason: str = "") -> None:
        """Have the Pods that try it out end, once there are so many; `phase` says how."""
        async with asyncio.timeout(DEADLINE):
            while len(found := [pod for pod in await self.probes() if pod["status"]["phase"] == "Pending"]) < count:
                await asyncio.sleep(0.05)
        for pod in found:
            await say(self.client, PODS, pod, phase=phase, **({"reason": reason} if reason else {}))

    async def mounted(self) -> bool:
        """Whether the Deployment mounts the model from its image; else it is fetched."""
        deployment = await self.client.get(DEPLOYMENTS, self.namespace, "s")
        return any("image" in volume for volume in deployment["spec"]["template"]["spec"]["volumes"])


@pytest.fixture
async def place(kube_apiserver: KubeApiserver) -> AsyncIterator[Place]:
    async with KubernetesClient(load_kubeconfig([kube_apiserver.kubeconfig])) as client:
        name = fresh_name("images")
        enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": enforced}}
        await client.create(NAMESPACES, "", body)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await client.create(Resource("", "v1", "serviceaccounts", "ServiceAccount"), name, account)
        place = Place(client, name)
        yield place
        for node in place.nodes:
            await client.delete(NODES, "", node)


@asynccontextmanager
async def operating(place: Place, *, image_volumes: bool = True) -> AsyncIterator[KubernetesWorkloads]:
    settings = ServerSettings(
        agent_image="hub.example.com/modelwright:1",
        gateway_image="hub.example.com/gateway:1",
        catalogue=builtin(),
        namespace=place.namespace,
        image_volumes=image_volumes,
    )
    async with KubernetesWorkloads(place.client, JobSettings(agent_image="a"), settings) as workloads:
        yield workloads


async def applied(workloads: KubernetesWorkloads, server: Server) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await workloads.apply(server)
            except Retryable:
                await asyncio.sleep(0.1)


async def test_a_model_is_mounted_where_a_pod_has_shown_that_it_works(place: Place) -> None:
    await place.node()
    async with operating(place) as workloads, asyncio.TaskGroup() as group:
        group.create_task(applied(workloads, place.server()))
        await place.show("Succeeded")
    assert await place.mounted()


async def test_all_nodes_in_question_have_to_show_it(place: Place) -> None:
    for _ in range(2):
        await place.node()
    async with operating(place) as workloads, asyncio.TaskGroup() as group:
        group.create_task(applied(workloads, place.server()))
        await place.show("Succeeded", count=2)
    assert await place.mounted()


async def test_a_node_that_cannot_has_models_fetched(place: Place) -> None:
    await place.node()
    async with operating(place) as workloads, asyncio.TaskGroup() as group:
        group.create_task(applied(workloads, place.server()))
        await place.show("Failed")
    assert not await place.mounted()


async def test_nobody_is_tried_where_nothing_is_in_an_image(place: Place) -> None:
    await place.node()
    async with operating(place) as workloads:
        await applied(workloads, place.server(Download("https://files.example.com/m.tar", "5" * 64)))
    assert await place.probes() == []


async def test_an_admin_can_switch_it_off(place: Place) -> None:
    await place.node()
    async with operating(place, image_volumes=False) as workloads:
        await applied(workloads, place.server())
    assert not await place.mounted()
    assert await place.probes() == []


async def test_what_a_node_has_shown_is_known_to_the_next_operator(place: Place) -> None:
    await place.node()
    async with operating(place) as workloads, asyncio.TaskGroup() as group:
        group.create_task(applied(workloads, place.server()))
        await place.show("Succeeded")
    before = await place.probes()
    async with operating(place) as workloads:
        await applied(workloads, place.server(version="v2"))
    assert await place.mounted()
    assert [pod["metadata"]["uid"] for pod in await place.probes()] == [pod["metadata"]["uid"] for pod in before]


async def test_another_kubelet_has_to_show_it_anew(place: Place) -> None:
    name = await place.node()
    async with operating(place) as workloads, asyncio.TaskGroup() as group:
        group.create_task(applied(workloads, place.server()))
        await place.show("Succeeded")
    node = await place.client.get(NODES, "", name)
    await say(place.client, NODES, node, nodeInfo={**INFO, "kubeletVersion": "v1.36.0"})
    async with operating(place) as workloads, asyncio.TaskGroup() as group:
        group.create_task(applied(workloads, place.server(version="v2")))
        await place.show("Failed")
    assert not await place.mounted()
    assert len(await place.probes()) == 1


async def test_what_a_node_has_shown_is_forgotten_with_it(place: Place) -> None:
    first, second = await place.node(), await place.node()
    async with operating(place) as workloads:
        async with asyncio.TaskGroup() as group:
            group.create_task(applied(workloads, place.server()))
            await place.show("Succeeded", count=2)
        servers = workloads._servers
        assert servers is not None
        known = servers._cloud._sources._volumes._findings
        assert known.keys() == {first, second}
        await place.client.delete(NODES, "", place.nodes.pop(0))
        node = await place.client.get(NODES, "", second)
        await say(place.client, NODES, node, nodeInfo={**INFO, "kubeletVersion": "v1.36.0"})
        async with asyncio.timeout(DEADLINE):
            while known:
                await asyncio.sleep(0.05)


async def test_what_is_found_out_of_a_node_that_has_gone_meanwhile_is_not_kept(place: Place) -> None:
    name = await place.node()
    async with operating(place) as workloads:
        async with asyncio.TaskGroup() as group:
            group.create_task(applied(workloads, place.server()))
            async with asyncio.timeout(DEADLINE):
                while not await place.probes():
                    await asyncio.sleep(0.05)
            await place.client.delete(NODES, "", place.nodes.pop())
            servers = workloads._servers
            assert servers is not None
            async with asyncio.timeout(DEADLINE):
                while servers.mirrors.nodes.get(name) is not None:
                    await asyncio.sleep(0.05)
            await place.show("Succeeded")
        async with asyncio.timeout(DEADLINE):
            while servers._cloud._sources._volumes._trying:
                await asyncio.sleep(0.05)
        assert not servers._cloud._sources._volumes._findings


async def test_what_is_decided_stays_while_the_pods_do(place: Place) -> None:
    await place.node()
    async with operating(place, image_volumes=False) as workloads:
        await applied(workloads, place.server())
    async with operating(place) as workloads:
        await applied(workloads, place.server(replicas=3))
        assert not await place.mounted()
        assert await place.probes() == []
        async with asyncio.TaskGroup() as group:
            group.create_task(applied(workloads, place.server(version="v2")))
            await place.show("Succeeded")
    assert await place.mounted()


async def test_an_image_that_the_node_cannot_pull_is_fetched_by_the_agent(place: Place) -> None:
    name = await place.node()
    server = place.server()
    async with operating(place) as workloads:
        async with asyncio.TaskGroup() as group:
            group.create_task(applied(workloads, server))
            await place.show("Succeeded")
        assert await place.mounted()
        pod = await a_pod_of(place, server, name)
        message = f'Back-off pulling image "{IMAGE.image}": x509: certificate signed by unknown authority'
        state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
        waiting = {"name": "fetch", "image": "a", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        await say(place.client, PODS, pod, phase="Pending", initContainerStatuses=[waiting])
        async with asyncio.timeout(DEADLINE):
            while await place.mounted():
                await applied(workloads, server)
                await asyncio.sleep(0.1)
        await applied(workloads, server)
        assert not await place.mounted()


async def a_pod_of(place: Place, server: Server, node: str) -> JSON:
    """As the ReplicaSet's controller makes it."""
    deployment = await place.client.get(DEPLOYMENTS, place.namespace, "s")
    template = deployment["spec"]["template"]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s-1", "uid": "rs", "controller": True}
    metadata = {**template["metadata"], "name": "s-1-a", "ownerReferences": [reference]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    assert labels(server).items() <= metadata["labels"].items()
    pod = await place.client.create(PODS, place.namespace, body)
    await bind(place.client, pod, node)
    return pod
