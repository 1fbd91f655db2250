"""Which nodes can mount a model straight from its image: those on which a Pod of ours has done it.

No version number tells it: a kubelet, a container runtime and their settings have to agree. So a short Pod on the node
mounts the agent's own image and reads in it; that it has finished is the proof, for this node as it is. It stays, so
that nobody has to try again.

https://kubernetes.io/docs/concepts/storage/volumes/#image
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence

import msgspec

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.servers import cloud_parts as parts
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import render_pod
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Pod
from modelwright.adapters.kubernetes.workloads.labels import COMPONENT, MANAGED_BY, MANAGER
from modelwright.ports.errors import AlreadyExists, ModelwrightError, NotFound
from modelwright.ports.workloads import Placement

_POD = msgspec.json.Decoder(Pod)

log = logging.getLogger(__name__)

PROBE = "image-volume-probe"
MOUNT = "/probe"
SUB_PATH = "usr/local"
"""A folder of the agent's image, as models are a folder of theirs: not every runtime can mount one."""
DEADLINE_SECONDS = 120
"""How long a Pod may take, its image included."""
LOOK_SECONDS = 0.5
AT_ONCE = 8
AGAIN_SECONDS = 600.0
"""After how long a node that could not be tried is tried again."""


class _Finding(msgspec.Struct, frozen=True):
    """What a probe has shown; `can` is None where it could not be tried, which holds `until` then."""

    probe: str
    can: bool | None
    until: float


class ImageVolumes:
    """`fit` says what is known, and has what is not known found out; nobody is asked before that.

    `node_of` gives a node as it is now: what is known is of that, and goes with it.
    """

    def __init__(
        self, client: KubernetesClient, settings: ServerSettings, node_of: Callable[[str], Node | None]
    ) -> None:
        self._client = client
        self._settings = settings
        self._node_of = node_of
        self._findings: dict[str, _Finding] = {}
        """By the node's name."""
        self._trying: dict[str, asyncio.Task[None]] = {}
        self._since: dict[asyncio.Task[None], float] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def fit(self, nodes: Sequence[Node], *, patience: float) -> bool:
        """Whether all of these nodes can. Who is being tried is waited for, for so many seconds from its beginning: not
        by each model anew, which would hold up all others."""
        if not nodes or not self._settings.image_volumes or not self._settings.namespace:
            return False
        trying = [task for node in nodes if (task := self._try(node)) is not None]
        if trying:
            until = max(self._since[task] for task in trying) + patience
            await asyncio.wait(trying, timeout=max(0.0, until - asyncio.get_running_loop().time()))
        return all(self._can(node) for node in nodes)

    def fails(self, nodes: Sequence[Node]) -> bool:
        """Whether one of them is known not to."""
        return any(self._can(node) is False for node in nodes)

    def node_changed(self, name: str) -> None:
        """A node came, went or is another: what was found out of one that is not there any more is forgotten."""
        finding = self._findings.get(name)
        if finding is not None and not self._is_there(name, finding.probe):
            del self._findings[name]

    async def aclose(self) -> None:
        """Find out no more."""
        trying = list(self._trying.values())
        for task in trying:
            task.cancel()
        if trying:
            await asyncio.wait(trying)

    def _can(self, node: Node) -> bool | None:
        finding = self._findings.get(node.name)
        return finding.can if finding is not None and finding.probe == probe_name(node) else None

    def _is_there(self, node: str, probe: str) -> bool:
        there = self._node_of(node)
        return there is not None and probe_name(there) == probe

    def _is_settled(self, node: Node, probe: str) -> bool:
        """Whether there is nothing to find out now."""
        finding = self._findings.get(node.name)
        if finding is None or finding.probe != probe:
            return False
        return finding.can is not None or finding.until > asyncio.get_running_loop().time()

    def _try(self, node: Node) -> asyncio.Task[None] | None:
        name = probe_name(node)
        if self._is_settled(node, name):
            return None
        if name not in self._trying:
            task = asyncio.create_task(self._find_out(name, node))
            self._trying[name], self._since[task] = task, asyncio.get_running_loop().time()
            task.add_done_callback(lambda task: (self._trying.pop(name, None), self._since.pop(task, None)))
        return self._trying[name]

    async def _find_out(self, name: str, node: Node) -> None:
        try:
            async with self._slots:
                found = await self._probe(name, node)
        except ModelwrightError as error:
            log.info("whether the node %s can mount images cannot be found out: %s", node.name, error.message)
            found = None
        if not self._is_there(node.name, name):
            return
        until = asyncio.get_running_loop().time() + AGAIN_SECONDS
        self._findings[node.name] = _Finding(name, found, until)
        if found is None:
            return
        log.info("the node %s %s", node.name, "mounts models from their images" if found else "mounts no images")

    async def _probe(self, name: str, node: Node) -> bool | None:
        """None: it could not be tried, as the node runs no such Pod now."""
        namespace = self._settings.namespace
        pod = await self._pod(name)
        if pod is None:
            try:
                await self._client.create_bytes(PODS, namespace, probe(name, node, self._settings))
            except AlreadyExists:
                pass
            await self._forget_former(node, name)
        until = asyncio.get_running_loop().time() + DEADLINE_SECONDS + 10
        while asyncio.get_running_loop().time() < until:
            pod = await self._pod(name)
            if pod is None:
                return None
            if pod.status.phase == "Succeeded":
                return True
            if pod.status.phase == "Failed" and not pod.status.reason:
                return False
            if pod.status.phase == "Failed":
                break  # evicted, or out of time: that says nothing of volumes
            await asyncio.sleep(LOOK_SECONDS)
        await self._client.delete(PODS, namespace, name)
        return None

    async def _pod(self, name: str) -> Pod | None:
        try:
            return _POD.decode(await self._client.get_bytes(PODS, self._settings.namespace, name))
        except NotFound:
            return None

    async def _forget_former(self, node: Node, name: str) -> None:
        """Those of the node as it was before its kubelet or runtime became another."""
        where = Selection(self._settings.namespace, labels=f"{COMPONENT}={PROBE},modelwright.dev/node={node.uid}")
        for found in await self._client.list(PODS, where):
            if found["metadata"]["name"] != name:
                await self._client.delete(PODS, self._settings.namespace, found["metadata"]["name"])


def probe_name(node: Node) -> str:
    """For this node as it is: another kubelet or runtime has to show it anew."""
    said = f"{node.uid}/{node.kubelet_version}/{node.runtime_version}"
    return f"modelwright-image-volume-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def probe(name: str, node: Node, settings: ServerSettings) -> JSON:
    """The Pod. It passes *restricted*, and runs only where any Pod may."""
    image = settings.agent_image
    container = {
        "name": "probe",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["modelwright", "agent", "probe-volume", MOUNT],
        "resources": parts.resources(settings.agent_resources),
        "volumeMounts": [{"name": "image", "mountPath": MOUNT, "subPath": SUB_PATH, "readOnly": True}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    placed = render_pod.placement(Placement(node_name=node.name))
    placed.pop("tolerations", None)
    spec: JSON = {
        **placed,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.run_as_user,
            "runAsGroup": settings.run_as_group,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "image", "image": {"reference": image, "pullPolicy": "IfNotPresent"}}],
    }
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in settings.image_pull_secrets]
    labels = {MANAGED_BY: MANAGER, COMPONENT: PROBE, "modelwright.dev/node": node.uid}
    metadata = {"name": name, "namespace": settings.namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
