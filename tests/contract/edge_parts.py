"""What stands beside a bare kube-apiserver where servers at the edge are tested: nodes, whose kubelet is the test."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.contract.cluster_parts import MAPS, bind, say
from tests.contract.pki import Authority
from tests.contract.subjects import fresh_name
from tests.unit.kubernetes.servers import listening

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource
from modelwright.adapters.kubernetes.servers.catalogue_builtin import builtin
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import NODES, PODS
from modelwright.ports.errors import AlreadyExists, Conflict, Forbidden, NotFound
from modelwright.ports.workloads import Owner, ServerStatus

SERVING = ServerSettings(agent_image="hub.example/modelwright:1", gateway_image="hub.example/gw:1", catalogue=builtin())
JOBS = JobSettings(agent_image="hub.example/modelwright:1")
DEADLINE = 60.0
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
LIMITS = Resource("", "v1", "limitranges", "LimitRange")
PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}


class Logs:
    """The part of a kubelet that shows logs (`/containerLogs/NAMESPACE/POD/CONTAINER`), on loopback."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], bytes] = {}
        self.asked = 0
        self.port = 0

    def put(self, pod: str, container: str, text: bytes) -> None:
        """What this container has printed."""
        self.lines[pod, container] = text

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return  # whoever asked has gone
        path = head.split(b" ")[1].decode().partition("?")[0]
        _, _, pod, container = path.strip("/").split("/")
        self.asked += 1
        body = self.lines.get((pod, container), b"")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def kubelet_logs(folder: Path) -> AsyncIterator[Logs]:
    """One for all nodes of a test."""
    certificate, key = Authority(folder).issue("kubelet")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    logs = Logs()
    async with listening(logs.answer, context) as logs.port:
        yield logs


class Edge:
    """A namespace that lets Pods of the edge in, and nodes with a label of their own."""

    def __init__(self, client: KubernetesClient, logs: Logs, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.label = fresh_name("rack")
        self.logs = logs

    async def owner(self, name: str = "owner") -> Owner:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        made = await self.client.create(MAPS, self.namespace, body)
        return Owner("v1", "ConfigMap", self.namespace, name, made["metadata"]["uid"])

    async def node(self, name: str = "", *, ready: str = "True", **labels: str) -> str:
        """A node that answers at 127.0.0.1."""
        name = name or fresh_name("node")
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": self.label, **labels}}
        made = await self.client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        await self.node_is(made, ready)
        return name

    async def node_is(self, node: JSON | str, ready: str) -> None:
        """The node's condition Ready; its address and its kubelet's port."""
        if isinstance(node, str):
            node = await self.client.get(NODES, "", node)
        name = node["metadata"]["name"]
        conditions = [{"type": "Ready", "status": ready, "reason": "x", "message": "x"}]
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        endpoints = {"kubeletEndpoint": {"Port": self.logs.port}}
        status = {"conditions": conditions, "addresses": addresses, "daemonEndpoints": endpoints}
        await self.client.merge_patch(NODES, "", name, {"status": status}, subresource="status")

    async def pod(self, name: str) -> JSON | None:
        try:
            return await self.client.get(PODS, self.namespace, name)
        except NotFound:
            return None

    async def pods(self, owner: Owner, component: str = "serve") -> list[JSON]:
        where = f"modelwright.dev/owner-uid={owner.uid},app.kubernetes.io/component={component}"
        return await self.client.list(PODS, Selection(self.namespace, labels=where))

    async def has_pod(self, name: str, but: str = "") -> JSON:
        """The Pod, as soon as there is one, other than that with the UID `but`."""
        async with asyncio.timeout(DEADLINE):
            while True:
                pod = await self.pod(name)
                if pod is not None and pod["metadata"]["uid"] != but:
                    return pod
                await asyncio.sleep(0.05)

    async def runs(self, pod: JSON, *, ready: bool = True, **statuses: JSON) -> None:
        """As scheduler and kubelet do: it is on its node, and its containers are like this (by default they run)."""
        with contextlib.suppress(Conflict):  # it has its node already
            await bind(self.client, pod, node_of(pod))
        containers = [
            {**running(each["name"], ready=ready), **statuses.get(each["name"], {})}
            for each in pod["spec"]["containers"]
        ]
        said = [
            {"type": "PodScheduled", "status": "True"},
            {"type": "ContainersReady", "status": str(ready)},
            {"type": "Ready", "status": str(ready)},
        ]
        await say(
            self.client, PODS, pod, phase="Running", hostIP="127.0.0.1", conditions=said, containerStatuses=containers
        )

    async def sweeps(self, owner: Owner) -> None:
        """Wait until the one Pod that removes what this owner has kept may begin."""

        async def begun() -> bool:
            (found,) = await self.pods(owner, "sweep")
            return not found["spec"].get("schedulingGates")

        await eventually(begun)

    async def goes(self, name: str) -> None:
        """Wait until the Pod of that name has been told to end."""

        async def going() -> bool:
            return "deletionTimestamp" in (await self.has_pod(name))["metadata"]

        await eventually(going)

    async def gone(self, pod: JSON) -> None:
        """The kubelet has ended its containers."""
        await self.client.delete(
            PODS, self.namespace, pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace_seconds=0
        )

    async def has_room(self, used: int) -> None:
        """The quota of the namespace is one Pod, and so many are counted: the test is the controller that counts."""
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}}
        status = {"hard": {"pods": "1"}, "used": {"pods": str(used)}}
        with contextlib.suppress(AlreadyExists):
            await self.client.create(QUOTAS, self.namespace, {**body, "spec": {"hard": {"pods": "1"}}})
        await self.client.merge_patch(QUOTAS, self.namespace, "one", {"status": status}, subresource="status")
        if used:
            await self._refuses({"name": "a", "image": "a"})

    async def has_memory(self, hard: str, used: str) -> None:
        """A quota of memory, of which so much is counted: the test is the controller that counts."""
        hard_, used_ = {"limits.memory": hard}, {"limits.memory": used}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "memory"}, "spec": {"hard": hard_}}
        await self.client.create(QUOTAS, self.namespace, body)
        patch = {"status": {"hard": hard_, "used": used_}}
        await self.client.merge_patch(QUOTAS, self.namespace, "memory", patch, subresource="status")
        await self._refuses({"name": "a", "image": "a", "resources": {"limits": {"memory": "1Ei"}}})

    async def allows(self, cpu: str) -> None:
        """As an admin does: no container of the namespace may have more from now on."""
        limit = {"type": "Container", "max": {"cpu": cpu}}
        body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": {"limits": [limit]}}
        await self.client.create(LIMITS, self.namespace, body)
        container = {"name": "a", "image": "a", "resources": {"limits": {"cpu": f"{cpu}001"}}}
        await self._refuses(container)

    async def _refuses(self, container: JSON) -> None:
        """Wait until a Pod of this container is not let in."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}

        async def refused() -> bool:
            try:
                await self.client.create(PODS, self.namespace, pod, dry_run=True)
            except Forbidden:
                return True
            return False

        await eventually(refused)


def running(name: str, *, ready: bool = True) -> JSON:
    """The status of a container that runs."""
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"name": name, "image": "a", "imageID": "a@sha256:1", "ready": ready, "restartCount": 0, "state": state}


def node_of(pod: JSON) -> str:
    """The node that its affinity names."""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (name,) = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"]
    return str(name)


async def a_namespace(client: KubernetesClient, **labels: str) -> str:
    """A fresh one; without labels it lets in what the API server lets in by default."""
    name = fresh_name("edge")
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name


async def until(
    workloads: KubernetesWorkloads, owner: Owner, done: Callable[[ServerStatus], bool], name: str = "serve"
) -> ServerStatus:
    """The status of the server, as soon as it is so."""
    seen: object = None
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                for status in (seen := await workloads.observe(owner.uid)):
                    if isinstance(status, ServerStatus) and status.name == name and done(status):
                        return status
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it has not come to that: {seen}") from None


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(DEADLINE):
        while not await holds():
            await asyncio.sleep(0.05)
