"""A control plane for benchmarks: real etcd, kube-apiserver, controller-manager and scheduler; kwok for nodes and pods.

A pod of a build comes to its end at once, with the termination message that the agent would leave, so that what is
measured is the operator and Kubernetes, not the moving of bytes.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.contract.kube_apiserver import KubeApiserver, running_kube_apiserver

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import CRDS, Resource
from modelwright.api.crd import crd
from modelwright.api.kinds import KINDS
from modelwright.ports.errors import AlreadyExists, ModelwrightError
from modelwright.ports.job import Report
from modelwright.ports.workloads import BuildResult

TOOLS = Path(__file__).resolve().parent.parent / "tests" / "tools" / "install.py"
MODELWRIGHT = Path(sys.executable).with_name("modelwright")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NODE_COUNT = 10
CONNECTIONS = 16
DIGEST = "sha256:" + "5" * 64
NAMESPACE = "default"
REGISTRY = "registry.example.com/models"
AGENT_IMAGE = "registry.example.com/modelwright:1"
REPOSITORY, TAG = "bench", "v1"
"""The same for all: what a build reports is believed only if it is what it was asked for."""


def install() -> tuple[Path, Path]:
    """The folder of the built programs, and kwok."""
    printed = subprocess.run([sys.executable, str(TOOLS), "--bench"], check=True, stdout=subprocess.PIPE, text=True)
    programs, kwok = printed.stdout.split()
    return Path(programs), Path(kwok)


@contextmanager
def control_plane(folder: Path) -> Iterator[KubeApiserver]:
    """Everything but the operator, ready to build; stopped at the end."""
    programs, kwok = install()
    with ExitStack() as stack:
        server = stack.enter_context(running_kube_apiserver(programs, folder))
        config = f"--kubeconfig={server.kubeconfig}"
        manager = [str(programs / "kube-controller-manager"), config, "--leader-elect=false", "--secure-port=0"]
        stack.enter_context(process(folder / "manager.log", [*manager, "--kube-api-qps=200", "--kube-api-burst=400"]))
        scheduler = [str(programs / "kube-scheduler"), "--leader-elect=false", "--secure-port=0"]
        scheduler += [f"--config={scheduler_configuration(folder, server)}"]
        stack.enter_context(process(folder / "scheduler.log", scheduler))
        stages = folder / "stages.json"
        stages.write_text("\n---\n".join(json.dumps(stage) for stage in (node_stage(), pod_stage())))
        fake = [str(kwok), config, f"--config={stages}", "--manage-all-nodes=true", "--node-lease-duration-seconds=40"]
        stack.enter_context(process(folder / "kwok.log", fake))
        asyncio.run(prepare(server))
        yield server


def scheduler_configuration(folder: Path, server: KubeApiserver) -> Path:
    """A scheduler that is not throttled more than the controller-manager is."""
    path = folder / "scheduler.json"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(server.kubeconfig), "qps": 200, "burst": 400},
            }
        )
    )
    return path


@contextmanager
def process(log: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(15)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def stage(name: str, kind: str, selector: list[dict[str, Any]], template: str) -> dict[str, Any]:
    """A kwok Stage: objects that match get this status at once."""
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": selector},
            "next": {"statusTemplate": template},
        },
    }


def node_stage() -> dict[str, Any]:
    status = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "NOW"}],
        "allocatable": {"cpu": "1000", "memory": "4Ti", "pods": "10000"},
        "capacity": {"cpu": "1000", "memory": "4Ti", "pods": "10000"},
    }
    selector = [{"key": '.status.conditions.[] | select( .type == "Ready" ) | .status', "operator": "NotIn",
                 "values": ["True"]}]  # fmt: skip
    return stage("node-ready", "Node", selector, json.dumps(status).replace('"NOW"', "{{ Now | Quote }}"))


def pod_stage() -> dict[str, Any]:
    resolved = f"{REGISTRY}/{REPOSITORY}@{DIGEST}"
    result = BuildResult(digest=DIGEST, tag=TAG, resolved=resolved, size_bytes=1024, files=1)
    message = json.dumps(json_of(Report(result=result)))
    terminated = {"exitCode": 0, "reason": "Completed", "message": message, "startedAt": "NOW", "finishedAt": "NOW"}
    status = {
        "phase": "Succeeded",
        "startTime": "NOW",
        "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}],
        "containerStatuses": [
            {
                "name": "build",
                "image": "agent",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
        ],
    }
    selector: list[dict[str, Any]] = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.podIP", "operator": "DoesNotExist"},
        {"key": ".spec.nodeName", "operator": "Exists"},
        {"key": ".status.phase", "operator": "In", "values": ["Pending", "Running"]},
    ]
    return stage("build-done", "Pod", selector, json.dumps(status).replace('"NOW"', "{{ Now | Quote }}"))


def json_of(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value)


async def prepare(server: KubeApiserver) -> None:
    """Our kinds, and nodes to run on."""
    async with KubernetesClient(load_kubeconfig([server.kubeconfig])) as client:
        for kind in KINDS:
            await client.create(CRDS, "", crd(kind))
        for number in range(NODE_COUNT):
            name = f"node-{number}"
            labels = {"kubernetes.io/hostname": name}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            await client.create(NODES, "", node)
        await until(lambda: established(client), "the kinds are served")
        await until(lambda: nodes_ready(client), "the nodes are ready")


async def established(client: KubernetesClient) -> bool:
    def is_established(item: Any) -> bool:
        conditions = item.get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    found = await client.list(CRDS)
    return len(found) >= len(KINDS) and all(is_established(item) for item in found)


async def nodes_ready(client: KubernetesClient) -> bool:
    def is_ready(node: Any) -> bool:
        conditions = node.get("status", {}).get("conditions") or []
        tainted = node.get("spec", {}).get("taints")
        return not tainted and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    return all(is_ready(node) for node in await client.list(NODES))


async def until(probe: Any, what: str, seconds: float = 300.0, pause: float = 0.2) -> None:
    deadline = time.monotonic() + seconds
    while not await probe():
        if time.monotonic() > deadline:
            raise SystemExit(f"cluster bench: after {seconds:.0f} s not yet so: {what}")
        await asyncio.sleep(pause)


# The operator -------------------------------------------------------------------------------------------------------


class Operator:
    """An operator that runs as a process, and what it costs."""

    def __init__(self, running: subprocess.Popen[bytes], listen: str, log: Path, began: int) -> None:
        self.process = psutil.Process(running.pid)
        self.listen = listen
        self._log, self._began = log, began

    def cpu(self) -> float:
        """Seconds of CPU, its children's too."""
        return sum(sum(each.cpu_times()[:2]) for each in self._all())

    def memory(self) -> float:
        """Resident memory in MiB."""
        return sum(each.memory_info().rss for each in self._all()) / 2**20

    def peak_memory(self) -> float:
        """The most resident memory that it ever had, in MiB, as the kernel has noted it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 2**10

    def ready(self) -> bool:
        """Whether it leads, with its caches filled."""
        try:
            with urllib.request.urlopen(f"http://{self.listen}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def caught_up(self) -> bool:
        """Whether it says that it has looked at every object since it was started."""
        return b"caught up" in self._log.read_bytes()[self._began :]

    def writes(self) -> float:
        """Requests that changed something, but for those that renewed the lease."""
        with urllib.request.urlopen(f"http://{self.listen}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        found = re.findall(r"^rest_client_requests_total\{([^}]*)\} ([0-9.e+]+)$", text, re.MULTILINE)
        renewals = re.findall(r"^modelwright_lease_renew_seconds_count ([0-9.e+]+)$", text, re.MULTILINE)
        writes = sum(float(count) for labels, count in found if 'method="GET"' not in labels)
        return writes - sum(map(float, renewals))

    def _all(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]


@contextmanager
def operator(server: KubeApiserver, folder: Path, port: int) -> Iterator[Operator]:
    listen = f"127.0.0.1:{port}"
    command = [str(MODELWRIGHT), "operator", f"--kubeconfig={server.kubeconfig}", f"--listen={listen}"]
    command += [f"--registry={REGISTRY}", f"--agent-image={AGENT_IMAGE}"]
    command += ["--lease-namespace=default", "--lease-name=modelwright-bench"]
    log = folder / "operator.log"
    log.touch()
    size = log.stat().st_size
    with process(log, command) as running:
        yield Operator(running, listen, log, size)


@asynccontextmanager
async def connected(server: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(load_kubeconfig([server.kubeconfig])) as client:
        yield client


async def make(client: KubernetesClient, resource: Resource, namespace: str, body: Any) -> None:
    """Create one object, again if the server was busy."""
    while True:
        try:
            await client.create(resource, namespace, body)
        except AlreadyExists:
            return
        except ModelwrightError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def spread(
    server: KubeApiserver,
    items: Sequence[Any],
    work: Callable[[KubernetesClient, Any], Awaitable[None]],
    connections: int = CONNECTIONS,
) -> None:
    """The work on each, over so many connections."""

    async def some(part: Sequence[Any]) -> None:
        async with connected(server) as client:
            for item in part:
                await work(client, item)

    async with asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(some(items[number::connections]))
