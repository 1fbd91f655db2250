"""`modelwright up` as a whole: how soon it is ready, what it costs at rest, how fast it builds.

    python bench/control_plane.py [--quick] [--versions N]

Ready: from the start of the process to the line `ready`, on new and on used data. At rest: memory (PSS) of the
control plane with its idle workers, CPU, and whether any file in the data directory changes. Builds: ModelVersions of
1 KiB each, created over 16 connections, until all are Ready.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.locate import find_access
from modelwright.adapters.kubernetes.resource import of_kind
from modelwright.api.kinds import MODEL_VERSION

MODELWRIGHT = Path(sys.executable).with_name("modelwright")
CONNECTIONS = 16


class Running:
    """A control plane, and how long it took to be ready."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self.process = process
        self.seconds = seconds

    def all(self) -> list[psutil.Process]:
        """It and its children."""
        first = psutil.Process(self.process.pid)
        return [first, *first.children(recursive=True)]

    def cpu(self) -> float:
        """Seconds of CPU that all of them have used."""
        return sum(sum(each.cpu_times()[:2]) for each in self.all())


@contextmanager
def running(data: Path) -> Iterator[Running]:
    began = time.perf_counter()
    command = [str(MODELWRIGHT), "up", "--data-dir", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), line
        try:
            yield Running(process, time.perf_counter() - began)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def report(what: str, value: str, goal: str = "") -> None:
    print(f"  {what:58} {value:>14}  {goal}", flush=True)


def start_times(folder: Path, rounds: int) -> None:
    fresh: list[float] = []
    used: list[float] = []
    for number in range(rounds):
        data = folder / f"start-{number}"
        for times in (fresh, used):
            with running(data) as plane:
                times.append(plane.seconds)
    report("ready on new data, median", f"{statistics.median(fresh):.2f} s", "goal <= 1.5 s")
    report("ready on used data, median", f"{statistics.median(used):.2f} s", "goal <= 1.5 s")


def at_rest(folder: Path, seconds: float) -> None:
    data = folder / "rest"
    with running(data) as plane:
        time.sleep(3)  # the start's own work is done
        before, cpu, began = snapshot(data), plane.cpu(), time.perf_counter()
        time.sleep(seconds)
        spent = (plane.cpu() - cpu) / (time.perf_counter() - began)
        memory = sum(each.memory_full_info().pss for each in plane.all())
        changed = snapshot(data) != before
    report(f"memory at rest ({len(before)} files), PSS with workers", f"{memory / 2**20:.0f} MiB", "goal <= 120 MiB")
    report(f"CPU at rest over {seconds:.0f} s", f"{spent * 100:.2f} % of a core", "goal <= 1 %")
    report(f"files changed at rest within {seconds:.0f} s", "some" if changed else "none", "goal none")


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("log")
    }


def builds(folder: Path, count: int) -> None:
    models = folder / "models"
    for number in range(count):
        (models / str(number)).mkdir(parents=True)
        (models / str(number) / "model.bin").write_bytes(random.Random(number).randbytes(1024))
    with running(folder / "builds") as plane:
        cpu, began = plane.cpu(), time.perf_counter()
        created = asyncio.run(create_and_wait(folder / "builds" / "kubeconfig", models, count))
        seconds = time.perf_counter() - began
        report(f"{count} ModelVersions created over {CONNECTIONS} connections", f"{created:.1f} s")
        report(f"{count} ModelVersions from create to all Ready", f"{seconds:.1f} s", "goal <= 60 s for 1,000")
        report("  CPU of control plane and workers", f"{plane.cpu() - cpu:.1f} s")
        report("  memory after it, PSS", f"{sum(p.memory_full_info().pss for p in plane.all()) / 2**20:.0f} MiB")


async def create_and_wait(kubeconfig: Path, models: Path, count: int) -> float:
    """Create all, wait until all have an image; the seconds that creating took."""
    resource = of_kind(MODEL_VERSION)
    began = time.perf_counter()
    async with KubernetesClient(find_access(kubeconfig)) as client:
        gate = asyncio.Semaphore(CONNECTIONS)

        async def create(number: int) -> None:
            async with gate:
                await client.create(resource, "default", version(number, models))

        await asyncio.gather(*(create(number) for number in range(count)))
        created = time.perf_counter() - began
        while sum(map(is_ready, await client.list(resource))) < count:
            await asyncio.sleep(0.5)
    return created


def version(number: int, models: Path) -> dict[str, Any]:
    return {
        "apiVersion": MODEL_VERSION.api_version,
        "kind": "ModelVersion",
        "metadata": {"name": f"mv-{number}"},
        "spec": {
            "modelName": f"model-{number % 20}",
            "imageRepo": f"modelhub/model-{number % 20}",
            "storage": {"localStorage": {"path": str(models / str(number)), "nodeName": "here"}},
        },
    }


def is_ready(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, shorter rest, fewer versions")
    parser.add_argument("--versions", type=int, default=1000)
    options = parser.parse_args()
    os.environ.pop("KUBECONFIG", None)
    print("modelwright up")
    with tempfile.TemporaryDirectory(prefix="modelwright-bench-") as name:
        folder = Path(name)
        start_times(folder, 2 if options.quick else 5)
        at_rest(folder, 10 if options.quick else 60)
        builds(folder, 100 if options.quick else options.versions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
