"""The operator on a real kube-apiserver, with kwok for nodes and pods: `make bench-cluster`.

    python bench/cluster.py [--quick] [--versions N] [--settled N]

Floor: what Kubernetes itself takes for the same Jobs, made by a bare client (`cluster_floor`).
Storm: ModelVersions on NFS storage, created at once over 16 connections, until all are Ready and nothing of their
builds is left. The pods are done at once, so what is measured is the operator and Kubernetes itself.
Held: versions that are built already; what the operator writes and costs while nothing happens, how long a restart
takes until it has caught up, and how soon a new version among them has its Job.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.cluster_floor import floor
from bench.cluster_plane import (
    DIGEST,
    NAMESPACE,
    REGISTRY,
    REPOSITORY,
    TAG,
    Operator,
    connected,
    control_plane,
    make,
    operator,
    spread,
    until,
)
from bench.cluster_watch import watched
from tests.contract.kube_apiserver import KubeApiserver

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.resource import Resource, of_kind
from modelwright.adapters.kubernetes.workloads.kinds import CLAIMS, JOBS, VOLUMES
from modelwright.adapters.kubernetes.workloads.labels import OURS
from modelwright.api.kinds import MODEL, MODEL_VERSION

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
VERSIONS = of_kind(MODEL_VERSION)
MODELS = 20


def report(what: str, value: str, goal: str = "") -> None:
    print(f"  {what:58} {value:>16}  {goal}", flush=True)


def version(name: str, model: str) -> dict[str, Any]:
    return {
        "apiVersion": VERSIONS.api_version,
        "kind": VERSIONS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "modelName": model,
            "createdBy": "bench",
            "imageRepo": REPOSITORY,
            "imageTag": TAG,
            "storage": {"nfs": {"server": "nas.example.com", "path": f"/models/{name}"}},
        },
    }


async def create_all(server: KubeApiserver, bodies: list[Any], resource: Resource) -> None:
    """Over some connections at once."""
    await spread(server, bodies, lambda client, body: make(client, resource, NAMESPACE, body))


async def left_over(client: KubernetesClient) -> int:
    return sum([len(await client.list(kind, OURS)) for kind in (JOBS, CLAIMS, VOLUMES)])


# Storm --------------------------------------------------------------------------------------------------------------


async def storm(server: KubeApiserver, running: Operator, count: int, bare: float) -> None:
    """`bare`: the seconds that the same Jobs took without an operator."""
    async with connected(server) as client:
        await until(wait_ready(running), "the operator is ready")
        await collectable(client)
        bodies = [version(f"storm-{number}", f"model-{number % MODELS}") for number in range(count)]
        async with watched(client, VERSIONS, Selection(NAMESPACE), built) as builds:
            cpu, began = running.cpu(), time.perf_counter()
            await create_all(server, bodies, VERSIONS)
            report(f"{count} ModelVersions created", f"{time.perf_counter() - began:.1f} s")
            await builds.so_many(count)
            taken, used = time.perf_counter() - began, running.cpu() - cpu
        report("all builds done", f"{taken:.1f} s", "goal <= 60 s")
        report("as many times what Kubernetes itself takes", f"{taken / bare:.2f}")
        report("operator CPU until then", f"{used:.1f} s", "goal <= 20 s")
        await until(lambda: nothing_left(client), "nothing of the builds is left", 600, pause=1.0)
        report("no Job, claim or PersistentVolume left", f"{time.perf_counter() - began:.1f} s")
        report("operator CPU in all", f"{running.cpu() - cpu:.1f} s")
        report("operator memory, peak", f"{running.peak_memory():.0f} MiB", "goal <= 150 MiB")


async def collectable(client: KubernetesClient) -> None:
    """Wait until the garbage collector, which looks for new kinds each 30 s, knows ours: until then it asks the API
    server about the owner of each object that it meets, which is no cluster in its ordinary state."""
    suspended = {"annotations": {"modelwright.dev/suspend": "true"}, "namespace": NAMESPACE}
    for owner in (version("collected", "none"), {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model"}):
        kind = VERSIONS if owner["kind"] == VERSIONS.kind else of_kind(MODEL)
        made = await client.create(kind, NAMESPACE, {**owner, "metadata": {"name": "collected", **suspended}})
        reference = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": "collected"}
        metadata = {"name": "collected", "ownerReferences": [{**reference, "uid": made["metadata"]["uid"]}]}
        await client.create(MAPS, NAMESPACE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        await client.delete(kind, NAMESPACE, "collected")

        async def gone() -> bool:
            return all(
                each["metadata"]["name"] != "collected" for each in await client.list(MAPS, Selection(NAMESPACE))
            )

        await until(gone, "the garbage collector knows our kinds", 120)


def wait_ready(running: Operator) -> Any:
    async def probe() -> bool:
        return await asyncio.to_thread(running.ready)

    return probe


def built(body: bytes) -> str:
    """The name of a version that has its image."""
    item = msgspec.json.decode(body)
    return item["metadata"]["name"] if item.get("status", {}).get("imageDigest") else ""


async def nothing_left(client: KubernetesClient) -> bool:
    return await left_over(client) == 0


# Held ---------------------------------------------------------------------------------------------------------------


async def fill(server: KubeApiserver, count: int) -> None:
    """Versions as they stand when they are built: nothing but the operator's own last look is missing."""
    bodies = [version(f"held-{number:05}", f"model-{number % MODELS}") for number in range(count)]
    await create_all(server, bodies, VERSIONS)
    async with connected(server) as client:
        have = await client.list(VERSIONS)
    todo = [item for item in have if not item.get("status", {}).get("imageDigest")]

    async def finish(client: KubernetesClient, item: Any) -> None:
        status = {
            "image": f"{REPOSITORY}:{TAG}",
            "imageDigest": DIGEST,
            "resolvedImage": f"{REGISTRY}/{REPOSITORY}@{DIGEST}",
            "imageBuildPhase": "ImageBuildSucceeded",
            "finishTime": "2026-01-01T00:00:00Z",
            "attempts": 1,
        }
        name = item["metadata"]["name"]
        await client.merge_patch(VERSIONS, NAMESPACE, name, {"status": status}, subresource="status")

    await spread(server, todo, finish)


async def settle(server: KubeApiserver, seconds: float = 10.0) -> None:
    """Until nothing of our kinds has been written for a while."""
    async with connected(server) as client:
        before, since = "", time.monotonic()
        while time.monotonic() - since < seconds:
            now = await newest(client)
            if now != before:
                before, since = now, time.monotonic()
            await asyncio.sleep(1)


async def newest(client: KubernetesClient) -> str:
    """The newest version of any object of ours."""
    found = [item for kind in (VERSIONS, of_kind(MODEL)) for item in await client.list(kind)]
    return str(max(int(item["metadata"]["resourceVersion"]) for item in found))


async def held(server: KubeApiserver, running: Operator, seconds: float) -> None:
    writes, cpu, began = running.writes(), running.cpu(), time.monotonic()
    async with connected(server) as client:
        before = await newest(client)
        await asyncio.sleep(seconds)
        same = await newest(client) == before
    elapsed = time.monotonic() - began
    report(f"writes in {seconds:.0f} s, the lease's apart", f"{running.writes() - writes:.0f}", "goal 0")
    report("objects as they were", "yes" if same else "NO", "goal yes")
    report("operator CPU", f"{100 * (running.cpu() - cpu) / elapsed:.2f} %", "goal <= 2 %")
    report("operator memory", f"{running.memory():.0f} MiB", "goal <= 300 MiB")


async def latencies(server: KubeApiserver, count: int) -> None:
    """From the creation of one more version to its Job, each on its own."""
    taken: list[float] = []
    async with connected(server) as client, watched(client, JOBS, OURS, owner) as seen:
        for number in range(count):
            began = time.perf_counter()
            name = f"late-{number:04}"
            await client.create(VERSIONS, NAMESPACE, version(name, f"model-{number % MODELS}"))
            taken.append(await asyncio.wait_for(seen.named(name), 60) - began)
    taken.sort()
    report("new version to its Job, p50", f"{1000 * statistics.median(taken):.0f} ms")
    place = max(0, math.ceil(0.99 * len(taken)) - 1)
    report(f"new version to its Job, p99 of {count}", f"{1000 * taken[place]:.0f} ms", "goal <= 1000 ms")


def owner(body: bytes) -> str:
    """The name of the version that a Job is for."""
    return str(msgspec.json.decode(body)["metadata"]["ownerReferences"][0]["name"])


# All of it ----------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def restart(running: Operator, began: float) -> None:
    async def probe() -> bool:
        return await asyncio.to_thread(running.caught_up)

    await until(probe, "all has been looked at")
    report("restart until caught up", f"{time.perf_counter() - began:.1f} s", "goal <= 15 s")


def main() -> None:
    arguments = parsed()
    print(f"floor: the Jobs of {arguments.versions} versions without an operator")
    with tempfile.TemporaryDirectory(prefix="mw-bench-") as name, control_plane(Path(name)) as server:
        bare = asyncio.run(floor(server, arguments.versions))
        report("all builds done", f"{bare:.1f} s")
    with tempfile.TemporaryDirectory(prefix="mw-bench-") as name, control_plane(Path(name)) as server:
        folder = Path(name)
        print(f"storm: {arguments.versions} versions at once")
        with operator(server, folder, free_port()) as running:
            asyncio.run(storm(server, running, arguments.versions, bare))
        print(f"held: {arguments.settled} versions that are built")
        asyncio.run(fill(server, arguments.settled - arguments.versions))
        with operator(server, folder, free_port()) as running:
            asyncio.run(until(wait_ready(running), "the operator is ready"))
            asyncio.run(settle(server))
        began = time.perf_counter()
        with operator(server, folder, free_port()) as running:
            asyncio.run(restart(running, began))
            asyncio.run(settle(server))
            asyncio.run(held(server, running, arguments.seconds))
            asyncio.run(latencies(server, arguments.late))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--versions", type=int, default=1000)
    parser.add_argument("--settled", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--late", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.versions, arguments.settled = arguments.versions // 10, arguments.settled // 10
        arguments.seconds, arguments.late = 30.0, 20
    return arguments


if __name__ == "__main__":
    main()
