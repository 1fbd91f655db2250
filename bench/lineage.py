"""`modelwright lineage` in a graph of 10,000 versions, and `modelwright diff` of two versions that share large weights.

    python bench/lineage.py [--quick] [--versions N] [--gigabytes N]

Lineage: each version has a training, a base version and a data set, every tenth is served, all in a real embedded
control plane (suspended, so that nothing is built). Measured are the whole command, as a user starts it, and what it
does once Python and its modules are there: connect, five lists, decode, graph, tree.
Diff: two versions of one model whose weights (1 GB) are the same and whose small files differ, and two with other
weights, from the registry inside `modelwright up`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.control_plane import MODELWRIGHT, report, running

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.locate import find_access
from modelwright.adapters.kubernetes.resource import of_kind
from modelwright.api.kinds import INFERENCE_MODEL, MODEL_VERSION, TRAINING_MODEL
from modelwright.cli import lineage
from modelwright.cli.lineage_tree import print_tree

GOAL_MS = 200
CONNECTIONS = 16
SUSPENDED = {"modelwright.dev/suspend": "true"}
JSON = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer objects and bytes: only to see that it works")
    parser.add_argument("--versions", type=int, default=0)
    parser.add_argument("--gigabytes", type=float, default=0)
    options = parser.parse_args()
    versions = options.versions or (500 if options.quick else 10_000)
    size = int((options.gigabytes or (0.05 if options.quick else 1.0)) * 1e9)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data"):
        kubeconfig = Path(folder) / "data" / "kubeconfig"
        measure_lineage(kubeconfig, versions)
        measure_diff(kubeconfig, Path(folder), size)


def measure_lineage(kubeconfig: Path, count: int) -> None:
    began = time.perf_counter()
    asyncio.run(fill(kubeconfig, count))
    report(f"{count} versions with trainings, {count // 10} served: made", f"{time.perf_counter() - began:.0f} s")
    middle = f"mv/mv-{count // 2}"
    asyncio.run(trace(kubeconfig, middle))
    began = time.process_time()
    inside = median(lambda: asyncio.run(trace(kubeconfig, middle)), 15)
    spent = (time.process_time() - began) / 15 * 1000
    report("lineage of a version in the middle, median of 15", f"{inside:.0f} ms", f"goal <= {GOAL_MS} ms")
    report("  of that, processor time of the client", f"{spent:.0f} ms")
    nodes = asyncio.run(trace(kubeconfig, "dataset/digits-7"))
    data = median(lambda: asyncio.run(trace(kubeconfig, "dataset/digits-7")), 7)
    report(f"lineage of a data set, {nodes} things hang on it, median of 7", f"{data:.0f} ms")
    whole = median(lambda: command(kubeconfig, "lineage", middle), 7)
    report("the whole command, Python's start with it, median of 7", f"{whole:.0f} ms")
    start = median(lambda: command(kubeconfig, "--version"), 7)
    report("  the start alone (`modelwright --version`), median of 7", f"{start:.0f} ms")


def median(measured: Callable[[], object], times: int) -> float:
    """Milliseconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        measured()
        found.append((time.perf_counter() - began) * 1000)
    return statistics.median(found)


async def trace(kubeconfig: Path, word: str) -> int:
    """Connect, list, decode, walk and draw; how many things were found."""
    async with KubernetesClient(find_access(kubeconfig)) as client:
        found = await lineage.trace(client, word, lineage.TREE_DEPTH)
    with contextlib.redirect_stdout(io.StringIO()):
        print_tree(found)
    return len(found.nodes)


def command(kubeconfig: Path, *words: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    subprocess.run([str(MODELWRIGHT), *words], check=True, stdout=subprocess.DEVNULL, env=environment)


# A graph --------------------------------------------------------------------------------------------------------------


async def fill(kubeconfig: Path, count: int) -> None:
    """Versions in a tree of base versions, with their statuses, as a long life of many models leaves them."""
    async with KubernetesClient(find_access(kubeconfig)) as client:
        gate = asyncio.Semaphore(CONNECTIONS)

        async def make(number: int) -> None:
            async with gate:
                await create(
                    client, TRAINING_MODEL, training(number), {"phase": "Succeeded", "modelVersion": f"mv-{number}"}
                )
                await create(client, MODEL_VERSION, version(number), built(number))
                if number % 10 == 0:
                    await create(client, INFERENCE_MODEL, served(number), {"servingVersion": f"mv-{number}"})

        await asyncio.gather(*(make(number) for number in range(count)))


async def create(client: KubernetesClient, kind: Any, spec: JSON, status: JSON) -> None:
    name = spec.pop("name")
    metadata = {"name": name, "annotations": SUSPENDED}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    await client.create(of_kind(kind), "default", body)
    await client.merge_patch(of_kind(kind), "default", name, {"status": status}, subresource="status")


def digest(number: int) -> str:
    return f"sha256:{hashlib.sha256(str(number).encode()).hexdigest()}"


def training(number: int) -> JSON:
    data = {"name": f"digits-{number % 50}", "uri": f"https://data.example.com/digits-{number % 50}.tar.gz"}
    return {
        "name": f"mv-{number}",
        "modelName": f"model-{number % 20}",
        "command": ["python", "train.py"],
        "args": ["--epochs", "30", "--learning-rate", "0.001"],
        "env": [{"name": "SEED", "value": str(number)}],
        "frameworkType": "sklearn",
        "datasets": [{**data, "sha256sum": digest(number % 50).removeprefix("sha256:")}],
        "imageRepo": f"modelhub/model-{number % 20}",
        "storage": {"localStorage": {"path": f"/models/mv-{number}"}},
        **({"baseModelVersion": f"mv-{number // 2}"} if number else {}),
    }


def version(number: int) -> JSON:
    data = {"name": f"digits-{number % 50}", "uri": f"https://data.example.com/digits-{number % 50}.tar.gz"}
    return {
        "name": f"mv-{number}",
        "modelName": f"model-{number % 20}",
        "createdBy": f"TrainingModel/mv-{number}",
        "imageRepo": f"modelhub/model-{number % 20}",
        "storage": {"localStorage": {"path": f"/models/mv-{number}", "nodeName": "here"}},
        "lineage": {
            "trainingModel": f"mv-{number}",
            "parents": [f"mv-{number // 2}"] if number else [],
            "datasets": [{**data, "digest": digest(number % 50)}],
            "source": {"repo": "https://git.example.com/train", "revision": digest(number)[7:47]},
            "parameters": {"epochs": "30", "learning-rate": "0.001", "SEED": str(number)},
        },
    }


def built(number: int) -> JSON:
    repository = f"modelhub/model-{number % 20}"
    condition = {"reason": "ImageBuilt", "message": f"{repository} is {digest(number)}", "observedGeneration": 1}
    condition["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    states = (("Ready", "True"), ("Reconciling", "False"), ("Stalled", "False"))
    return {
        "image": f"{repository}:v{number:05}",
        "imageDigest": digest(number),
        "resolvedImage": f"127.0.0.1:7817/{repository}@{digest(number)}",
        "imageBuildPhase": "ImageBuildSucceeded",
        "finishTime": "2026-01-02T03:04:05Z",
        "sizeBytes": 1_500_000,
        "fileCount": 3,
        "metrics": {"accuracy": 0.95, "loss": 0.05},
        "conditions": [{"type": type_, "status": status, **condition} for type_, status in states],
    }


def served(number: int) -> JSON:
    return {
        "name": f"served-{number}",
        "modelName": f"model-{number % 20}",
        "deployToLayer": "cloud",
        "frameworkType": "sklearn",
        "modelVersion": f"mv-{number}",
    }


# Two versions ---------------------------------------------------------------------------------------------------------


def measure_diff(kubeconfig: Path, folder: Path, size: int) -> None:
    weights = folder / "weights.bin"
    write(weights, size, seed=1)
    for name in ("big-v1", "big-v2", "big-v3"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps({"name": name}))
    for name in ("big-v1", "big-v2"):
        (folder / name / "weights.bin").hardlink_to(weights)
    write(folder / "big-v3" / "weights.bin", size, seed=2)
    asyncio.run(build(kubeconfig, folder))
    same = median(lambda: command(kubeconfig, "diff", "big-v1", "big-v2"), 5)
    report(f"diff of two versions that share {size / 1e9:g} GB, the whole command", f"{same:.0f} ms")
    other = median(lambda: command(kubeconfig, "diff", "big-v1", "big-v3"), 5)
    report(f"diff of two versions with {size / 1e9:g} GB each, not shared", f"{other:.0f} ms")
    read = median(lambda: command(kubeconfig, "diff", "big-v1", "big-v3", "--digests"), 1)
    report("  the same with --digests, which reads both", f"{read:.0f} ms")


def write(path: Path, size: int, *, seed: int) -> None:
    block = hashlib.sha256(str(seed).encode()).digest() * 32768
    with path.open("wb") as file:
        for start in range(0, size, len(block)):
            file.write(block[: size - start])


async def build(kubeconfig: Path, folder: Path) -> None:
    resource = of_kind(MODEL_VERSION)
    async with KubernetesClient(find_access(kubeconfig)) as client:
        for name in ("big-v1", "big-v2", "big-v3"):
            storage = {"localStorage": {"path": str(folder / name), "nodeName": "here"}}
            spec = {"modelName": "big", "imageRepo": "modelhub/big", "storage": storage}
            head = {"apiVersion": MODEL_VERSION.api_version, "kind": "ModelVersion", "metadata": {"name": name}}
            await client.create(resource, "default", {**head, "spec": spec})
            while not (await client.get(resource, "default", name)).get("status", {}).get("resolvedImage"):
                await asyncio.sleep(0.2)


if __name__ == "__main__":
    main()
