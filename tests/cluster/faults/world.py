"""Everything that one test of faults needs, put together: a namespace, a node, a proxy, an operator, a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster.faults.kubelet import CLAIMS, PODS, VOLUMES, FakeKubelet
from tests.cluster.faults.operator import OperatorProcess
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.proxy import FaultProxy
from tests.cluster.faults.registry import Registry
from tests.contract.subjects import fresh_name, install_crds

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource, of_kind
from modelwright.api.kinds import MODEL, MODEL_VERSION
from modelwright.ports.errors import NotFound

DEADLINE_SECONDS = 120.0
JOBS = Resource("batch", "v1", "jobs", "Job")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
MODELS, VERSIONS = of_kind(MODEL), of_kind(MODEL_VERSION)
OURS = "app.kubernetes.io/managed-by=modelwright"
NFS_SERVER, NFS_PATH = "nfs.test", "/exports/digits"
T = TypeVar("T")


class World:
    """`client` is an administrator straight at the kube-apiserver; only operators go through the proxy."""

    def __init__(
        self, plane: Plane, registry: Registry, proxy: FaultProxy, kubelet: FakeKubelet, client: KubernetesClient
    ) -> None:
        self.plane, self.registry, self.proxy, self.kubelet, self.client = plane, registry, proxy, kubelet, client
        self.namespace = ""
        self.folder = Path()
        self.files = Path()
        self.operators: list[OperatorProcess] = []

    def operator(self, *options: str, name: str = "operator", proxy: FaultProxy | None = None) -> OperatorProcess:
        """An operator that is not started yet, behind a proxy. Without options it elects nobody."""
        kubeconfig = (proxy or self.proxy).kubeconfig(self.plane.token)
        made = OperatorProcess(name, kubeconfig, self.folder / f"{name}.log", options or ("--no-leader-elect",))
        self.operators.append(made)
        return made

    # What users do --------------------------------------------------------------------------------------------------

    def version(self, name: str, storage: JSON | None = None, **spec: Any) -> JSON:
        """A ModelVersion of its own Model, in a repository of its own."""
        local = {"localStorage": {"path": str(self.files), "nodeName": self.kubelet.node}}
        repository = f"{self.registry.host}/{self.repository(name)}"
        wanted = {"modelName": f"{name}-model", "imageRepo": repository, "storage": storage or local, **spec}
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": VERSIONS.api_version, "kind": VERSIONS.kind, "metadata": metadata, "spec": wanted}

    def repository(self, name: str) -> str:
        return f"{self.namespace}/{name}"

    async def refill(self) -> None:
        """A fresh namespace, whose Pods the kubelet looks after."""
        self.namespace = await make_namespace(self.client)
        self.kubelet.namespaces.add(self.namespace)

    async def apply(self, *objects: JSON) -> None:
        for each in objects:
            await self.client.create(VERSIONS, self.namespace, each)

    # What is seen ---------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str) -> JSON:
        """The object, empty if there is none."""
        try:
            return await self.client.get(resource, self.namespace, name)
        except NotFound:
            return {}

    async def children(self) -> list[str]:
        """All that operators have made for builds and not removed, volumes too."""
        found = []
        for resource in (JOBS, PODS, CLAIMS, VOLUMES):
            here = Selection(namespace=self.namespace if resource.namespaced else "", labels=OURS)
            items = [item for item in await self.client.list(resource, here) if self._is_here(item)]
            found += [f"{resource.plural}/{item['metadata']['name']}" for item in items]
        return found

    def _is_here(self, item: JSON) -> bool:
        """A volume is where its claim is."""
        place = item["metadata"] if "namespace" in item["metadata"] else item["spec"]["claimRef"]
        return bool(place["namespace"] == self.namespace)

    async def running_pods(self) -> list[str]:
        """The Pods of builds that a kubelet says are running."""
        pods = await self.client.list(PODS, Selection(namespace=self.namespace, labels=OURS))
        return [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") == "Running"]

    async def built(self, *names: str) -> None:
        """Wait until these versions are Ready, their Models know them, and nothing of their builds is left."""
        for name in names:
            await self.until(partial(self.is_built, name), f"{name} to be built, and its Model's latest version")
        await self.until(self._nothing_left, "the builds to be cleared away")

    async def is_built(self, name: str) -> bool:
        """Whether it is Ready, and its Model says so."""
        if condition(await self.get(VERSIONS, name), "Ready").get("status") != "True":
            return False
        model = await self.get(MODELS, f"{name}-model")
        return bool(model.get("status", {}).get("latestVersion", {}).get("modelVersion") == name)

    async def built_once(self, *names: str) -> None:
        """Wait until they are built; each by one process, into one image with one tag."""
        await self.built(*names)
        for name in names:
            version = await self.get(VERSIONS, name)
            builds = self.kubelet.of(version["metadata"]["uid"])
            assert [build.exit_code for build in builds] == [0], builds
            assert list(self.registry.tags(self.repository(name)).values()) == [version["status"]["imageDigest"]]

    async def built_with_others(self, name: str) -> None:
        """Wait until it is built and cleared away, whatever there is of others."""
        await self.until(partial(self.is_built, name), f"{name} to be built")

        async def cleared() -> bool:
            return not [each for each in await self.children() if f"/{name}-" in each]

        await self.until(cleared, f"the build of {name} to be cleared away")

    async def _nothing_left(self) -> bool:
        return not await self.children()

    async def until(self, probe: Callable[[], Awaitable[T]], what: str, seconds: float = DEADLINE_SECONDS) -> T:
        """The first true answer; fails after a generous deadline, with the end of the operators' logs."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not (answer := await probe()):
            assert loop.time() < end, f"waited {seconds:.0f} s for {what}:\n{await self._told()}"
            await asyncio.sleep(0.05)
        return answer

    async def _told(self) -> str:
        logs = "\n".join(f"--- {each.name}\n{each.tail()}" for each in self.operators)
        calls = "\n".join(str(call) for call in self.proxy.calls[-30:])
        return f"{logs}\n--- last calls\n{calls}\n--- left\n{await self.children()}"


@asynccontextmanager
async def world(plane: Plane, registry: Registry, folder: Path) -> AsyncIterator[World]:
    """A world of its own, on a control plane and a registry that others share."""
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(plane.url, plane.ca_file, folder / "proxy"))
        client = await stack.enter_async_context(KubernetesClient(load_kubeconfig([plane.kubeconfig])))
        await install_crds(client)
        kubelet = FakeKubelet(plane.kubeconfig, fresh_name("node"), folder / "pods")
        await stack.enter_async_context(kubelet.running())
        made = World(plane, registry, proxy, kubelet, client)
        made.folder, made.files = folder, folder / "files"
        write_model(made.files)
        kubelet.exports[NFS_SERVER, NFS_PATH] = made.files
        await made.refill()
        stack.callback(lambda: (folder / "calls").write_text("\n".join(call.line() for call in proxy.calls)))
        stack.callback(lambda: [each.stop() for each in made.operators])
        yield made
        with suppress(NotFound):
            await client.delete(NAMESPACES, "", made.namespace)


async def make_namespace(client: KubernetesClient) -> str:
    """A namespace whose Pods can have their service account."""
    name = fresh_name("faults")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                await client.get(ACCOUNTS, name, "default")
            except NotFound:
                await asyncio.sleep(0.05)
            else:
                return name


def write_model(folder: Path) -> None:
    """The same files each time: the same digest."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(bytes(range(256)) * 4096)
    (folder / "labels.json").write_text('["zero", "one"]')


def condition(resource: JSON, type_: str) -> JSON:
    """The condition of this type, empty if there is none."""
    conditions = resource.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == type_), {})


NFS: JSON = {"nfs": {"server": NFS_SERVER, "path": NFS_PATH}}
