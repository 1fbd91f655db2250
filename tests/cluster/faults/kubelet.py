"""A kubelet of the tests' own: it has a Node, and moves the Pods that the scheduler gives it.

No container runs: for each build Pod the agent runs as an ordinary process, with the Pod's own variables, on the folder
that the Pod's volume leads to. So Jobs, Pods, claims, volumes and owner references are Kubernetes' own, and images are
really built and pushed, while hundreds of builds with an operator killed in each take minutes. Mounts, images and
security contexts are shown by the tests that run on real nodes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.cluster.faults.builds import Build, Ended, run_build

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import Resource
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.ports.errors import Conflict, ModelwrightError, NotFound, Retryable

JSON = dict[str, Any]
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
PODS = Resource("", "v1", "pods", "Pod")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
BUILD = "app.kubernetes.io/component"
WATCH_SECONDS = 60
KILLED = 137
log = logging.getLogger(__name__)


class FakeKubelet:
    """`node` is its Node's name, and `namespaces` are those whose Pods it runs: others it only lets go.

    `exports` says where the folders of NFS servers are: {(server, path): folder}. Builds begin only while `go` is set;
    a Pod whose build waits for it is Running. `builds` is all that has begun.
    """

    def __init__(self, kubeconfig: Path, node: str, folder: Path) -> None:
        self.node = node
        self.namespaces: set[str] = set()
        self.exports: dict[tuple[str, str], Path] = {}
        self.builds: list[Build] = []
        self.go = asyncio.Event()
        self.go.set()
        self._client = KubernetesClient(load_kubeconfig([kubeconfig]))
        self._folder = folder
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._going: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[FakeKubelet, None]:
        """Have a Node, and look after its Pods until the end of the block."""
        await self._client.create(NODES, "", _node(self.node))
        # It is born with a taint that the controller of heartbeats would take away, if there was one here.
        await self._client.merge_patch(NODES, "", self.node, {"spec": {"taints": None}})
        await self._client.merge_patch(NODES, "", self.node, _node(self.node), subresource="status")
        task = asyncio.create_task(self._run())
        try:
            yield self
            if task.done():
                task.result()
        finally:
            await _end([task, *self._lives.values(), *self._going.values()])
            with contextlib.suppress(ModelwrightError):
                await self._client.delete(NODES, "", self.node)
            await self._client.aclose()

    def of(self, owner_uid: str) -> list[Build]:
        """All builds for this owner, in the order in which they began."""
        return [build for build in self.builds if build.owner_uid == owner_uid]

    def live(self, owner_uid: str) -> list[Build]:
        """Those that run now."""
        return [build for build in self.of(owner_uid) if build.exit_code is None]

    # Pods -----------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        where = Selection(fields=f"spec.nodeName={self.node}")
        version = ""
        while True:
            try:
                if not version:
                    items, version = await self._client.list_bytes(PODS, where)
                    for item in items:
                        self._look_at(msgspec.json.decode(item))
                watching = watch_once(self._client, PODS, version, where, seconds=WATCH_SECONDS)
                async with aclosing(watching) as lines:
                    async for line in lines:
                        pod = msgspec.json.decode(line.object)
                        version = pod["metadata"]["resourceVersion"]
                        if line.type in ("ADDED", "MODIFIED"):
                            self._look_at(pod)
            except Retryable as error:  # the kube-apiserver is away: tests do that
                log.info("fake kubelet: %s", error.message)
                version = ""
                await asyncio.sleep(0.2)

    def _look_at(self, pod: JSON) -> None:
        uid = pod["metadata"]["uid"]
        foreign = pod["metadata"]["namespace"] not in self.namespaces
        if foreign or "deletionTimestamp" in pod["metadata"]:
            if uid not in self._going:
                self._going[uid] = asyncio.create_task(self._let_go(pod))
        elif uid not in self._lives and pod.get("status", {}).get("phase") == "Pending":
            self._lives[uid] = asyncio.create_task(self._live(pod))

    async def _let_go(self, pod: JSON) -> None:
        """End what runs, say how it ended (its Job waits for that), then say that the Pod has gone."""
        metadata = pod["metadata"]
        life = self._lives.get(metadata["uid"])
        if life is not None and not life.done():
            await _end([life])
            with contextlib.suppress(NotFound, Conflict):
                await self._tell(pod, "Failed", {"terminated": {"exitCode": KILLED, "reason": "Error"}})
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        path = PODS.path(metadata["namespace"], metadata["name"])
        with contextlib.suppress(NotFound):
            await self._persist(lambda: self._client.raw("DELETE", path, body=msgspec.json.encode(options)))

    async def _live(self, pod: JSON) -> None:
        """The whole life of a Pod."""
        if pod["metadata"].get("labels", {}).get(BUILD) != "build":
            return
        try:
            folders = await self._folders(pod)
            started = _now()
            await self._tell(pod, "Running", {"running": {"startedAt": started}})
            await self.go.wait()
            ended = await self._build(pod, folders)
            terminated = {"exitCode": ended.exit_code, "message": ended.message, "reason": _reason(ended.exit_code)}
            times = {"startedAt": started, "finishedAt": _now()}
            phase = "Failed" if ended.exit_code else "Succeeded"
            await self._tell(pod, phase, {"terminated": {**terminated, **times}})
        except NotFound as error:
            log.info("fake kubelet: %s: %s", pod["metadata"]["name"], error.message)

    async def _build(self, pod: JSON, folders: dict[str, Path]) -> Ended:
        (container,) = pod["spec"]["containers"]
        variables = {each["name"]: each.get("value", "") for each in container.get("env", [])}
        mounts = {
            each["mountPath"]: folders[each["name"]] / each.get("subPath", "") for each in container["volumeMounts"]
        }
        build = Build(pod["metadata"]["labels"].get("modelwright.dev/owner-uid", ""), pod["metadata"]["name"])
        self.builds.append(build)
        return await run_build(build, container["command"], variables, mounts, self._folder / pod["metadata"]["uid"])

    # Volumes --------------------------------------------------------------------------------------------------------

    async def _folders(self, pod: JSON) -> dict[str, Path]:
        """Where each of the Pod's volumes is, once all of them are there: a kubelet waits for them as well."""
        scratch = self._folder / pod["metadata"]["uid"]
        scratch.mkdir(parents=True)
        found = {}
        for volume in pod["spec"].get("volumes", []):
            name = volume["name"]
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                found[name] = await self._claimed(pod["metadata"]["namespace"], claim)
            else:
                found[name] = scratch / name
                found[name].mkdir()
            if "secret" in volume:
                await self._write_secret(pod["metadata"]["namespace"], volume["secret"], found[name])
            while not found[name].is_dir():
                await asyncio.sleep(0.1)
        return found

    async def _write_secret(self, namespace: str, source: JSON, folder: Path) -> None:
        try:
            secret = await self._persist(lambda: self._client.get(SECRETS, namespace, source["secretName"]))
        except NotFound:
            if source.get("optional"):
                return
            raise
        for key, value in secret.get("data", {}).items():
            (folder / key).write_bytes(base64.b64decode(value))

    async def _claimed(self, namespace: str, name: str) -> Path:
        claim = await self._persist(lambda: self._client.get(CLAIMS, namespace, name))
        volume = await self._persist(lambda: self._client.get(VOLUMES, "", claim["spec"]["volumeName"]))
        spec = volume["spec"]
        if "nfs" in spec:
            return self.exports[spec["nfs"]["server"], spec["nfs"]["path"]]
        return Path((spec.get("local") or spec["hostPath"])["path"])

    # What is said of them -------------------------------------------------------------------------------------------

    async def _tell(self, pod: JSON, phase: str, state: JSON) -> None:
        metadata = pod["metadata"]
        (container,) = pod["spec"]["containers"]
        ready = phase == "Running"
        status: JSON = {"name": container["name"], "state": state, "ready": ready, "restartCount": 0}
        status.update({"image": container["image"], "imageID": "", "started": ready})
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
        body = {"phase": phase, "containerStatuses": [status], "conditions": conditions, "startTime": _now()}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": body}
        namespace, name = metadata["namespace"], metadata["name"]
        await self._persist(lambda: self._client.merge_patch(PODS, namespace, name, patch, subresource="status"))

    async def _persist(self, call: Any) -> Any:
        """Try until the kube-apiserver answers: a kubelet does not give up."""
        while True:
            try:
                return await call()
            except Retryable as error:
                log.info("fake kubelet: %s", error.message)
                await asyncio.sleep(0.2)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _reason(exit_code: int) -> str:
    return "Error" if exit_code else "Completed"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _node(name: str) -> JSON:
    resources = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "1Ti"}
    ready = {"type": "Ready", "status": "True", "reason": "FakeKubelet", "message": "it runs in a test"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }
