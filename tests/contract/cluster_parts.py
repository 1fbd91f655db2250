"""What stands beside a bare kube-apiserver where builds are tested: real controllers, and a node that is a process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name
from tests.integration.registries import TOKEN, embedded_registry

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.kinds import CLAIMS, NODES, PODS, VOLUMES
from modelwright.ports.errors import Conflict, NotFound
from modelwright.ports.job import TASK_VARIABLE, BuildTask
from modelwright.ports.workloads import Owner

CONTROLLERS = (
    "job-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
)
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
TERMINATION_LIMIT = 4096
OURS = "app.kubernetes.io/managed-by=modelwright"


@contextmanager
def running_controllers(
    programs: Path, folder: Path, server: KubeApiserver, controllers: Sequence[str] = CONTROLLERS
) -> Iterator[None]:
    """The kube-controller-manager with what Jobs and volumes need of it, or these controllers."""
    command = [
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={server.kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
    with (folder / "controllers.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# A Pod's life, by hand ----------------------------------------------------------------------------------------------


async def bind(client: KubernetesClient, pod: JSON, node: str) -> None:
    """As the scheduler does."""
    metadata = pod["metadata"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = PODS.path(metadata["namespace"], metadata["name"], "binding")
    await client.raw("POST", path, body=msgspec.json.encode(binding))


async def say(client: KubernetesClient, resource: Resource, item: JSON, **status: Any) -> None:
    """As the kubelet, or a controller, writes a status."""
    metadata = item["metadata"]
    await client.merge_patch(
        resource, metadata.get("namespace", ""), metadata["name"], {"status": status}, subresource="status"
    )


def ended(code: int, message: str, name: str = "build", reason: str = "") -> JSON:
    """The status of a container that has ended."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {"exitCode": code, "message": message, "reason": reason or ("Error" if code else "Completed")}
    terminated = {"terminated": {**state, "startedAt": now, "finishedAt": now}}
    return {"name": name, "image": "a", "imageID": "", "ready": False, "restartCount": 0, "state": terminated}


def running(name: str = "build") -> JSON:
    """The status of a container that runs."""
    state = {"running": {"startedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}
    return {"name": name, "image": "a", "imageID": "", "ready": True, "restartCount": 0, "state": state}


# A node that runs what it is given ----------------------------------------------------------------------------------


class ProcessNode:
    """Runs the agent of each build Pod as a process of this machine, with the volume's local folder as the model.

    It binds the Pod, waits for its claim, starts the command with the Pod's own variables, and writes down how the
    container ended, as a kubelet does.
    """

    def __init__(self, client: KubernetesClient, name: str, folder: Path) -> None:
        self._client = client
        self._name = name
        self._folder = folder
        self._seen: set[str] = set()

    async def run(self, namespace: str) -> None:
        """Take up each Pod of ours in this namespace, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                for pod in await self._client.list(PODS, Selection(namespace, labels=OURS)):
                    uid = pod["metadata"]["uid"]
                    if uid not in self._seen and await self._bound(pod):
                        self._seen.add(uid)
                        group.create_task(self._build(pod))
                await asyncio.sleep(0.1)

    async def _bound(self, pod: JSON) -> bool:
        claim = await self._claim(pod)
        return claim is not None and claim.get("status", {}).get("phase") == "Bound"

    async def _claim(self, pod: JSON) -> JSON | None:
        (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "model"]
        name = volume["persistentVolumeClaim"]["claimName"]
        try:
            return await self._client.get(CLAIMS, pod["metadata"]["namespace"], name)
        except NotFound:
            return None

    async def _build(self, pod: JSON) -> None:
        with contextlib.suppress(NotFound, Conflict):  # it may be deleted at any time
            await bind(self._client, pod, self._name)
            await say(self._client, PODS, pod, phase="Running", containerStatuses=[running()])
            code, message = await self._agent(pod)
            phase = "Failed" if code else "Succeeded"
            await say(self._client, PODS, pod, phase=phase, containerStatuses=[ended(code, message)])

    async def _agent(self, pod: JSON) -> tuple[int, str]:
        claim = await self._claim(pod)
        assert claim is not None
        volume = await self._client.get(VOLUMES, "", claim["spec"]["volumeName"])
        (container,) = pod["spec"]["containers"]
        given = {each["name"]: each["value"].replace("$$", "$") for each in container["env"]}
        task = msgspec.json.decode(given[TASK_VARIABLE], type=BuildTask)
        home = self._folder / pod["metadata"]["uid"]
        home.mkdir(parents=True)
        secret = await self._secret(pod, task.action.push_secret, home / "secret")
        task = msgspec.structs.replace(task, folder=volume["spec"]["local"]["path"], secret=secret)
        variables = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HOME": str(home),
            "MODELWRIGHT_TERMINATION_FILE": str(home / "termination-log"),
            TASK_VARIABLE: msgspec.json.encode(task).decode(),
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *container["command"], env=variables, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return code, (home / "termination-log").read_text()[:TERMINATION_LIMIT]

    async def _secret(self, pod: JSON, name: str, folder: Path) -> str:
        """The keys of the push secret as files, as they are mounted; the folder, empty without one."""
        if not name:
            return ""
        secret = await self._client.get(SECRETS, pod["metadata"]["namespace"], name)
        _write(folder, {key: base64.b64decode(value) for key, value in secret["data"].items()})
        return str(folder)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


@asynccontextmanager
async def process_node(client: KubernetesClient, namespace: str, folder: Path) -> AsyncIterator[str]:
    """A node for the Pods of one namespace; its name."""
    name = f"node-{namespace}"
    labels = {"kubernetes.io/hostname": f"{name}.local"}
    await client.create(NODES, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    node = asyncio.create_task(ProcessNode(client, name, folder).run(namespace))
    try:
        yield name
    finally:
        node.cancel()
        await asyncio.wait([node])


Own = Callable[[str], Awaitable[Owner]]


@asynccontextmanager
async def kubernetes_builds(
    server: KubeApiserver, folder: Path
) -> AsyncIterator[tuple[KubernetesWorkloads, Own, str, str]]:
    """KubernetesWorkloads in a namespace with a node and a registry's login; makes the owner of a name, once.

    `server` has controllers.
    """
    access = load_kubeconfig([server.kubeconfig])
    async with AsyncExitStack() as stack:
        registry = stack.enter_context(embedded_registry(folder / "registry"))
        client = await stack.enter_async_context(KubernetesClient(access))
        namespace = fresh_name("workloads")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, "", body)
        await client.create(SECRETS, namespace, _login(registry))
        node = await stack.enter_async_context(process_node(client, namespace, folder / "node"))
        settings = JobSettings(agent_image="agent", plain_http=(registry,))
        workloads = await stack.enter_async_context(KubernetesWorkloads(client, settings))
        owners: dict[str, Owner] = {}

        async def own(name: str) -> Owner:
            if name not in owners:
                made = await client.create(MAPS, namespace, {"metadata": {"name": name}})
                owners[name] = Owner("v1", "ConfigMap", namespace, name, made["metadata"]["uid"])
            return owners[name]

        yield workloads, own, registry, node


def _login(registry: str) -> JSON:
    auth = base64.b64encode(f"builder:{TOKEN}".encode()).decode()
    config = {"auths": {registry: {"auth": auth}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": msgspec.json.encode(config).decode()},
    }
