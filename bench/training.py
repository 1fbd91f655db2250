"""How soon the command of a TrainingModel runs, with a real `modelwright up`.

    python bench/training.py [--quick] [--trainings N]

From just before the TrainingModel is sent to the API until its command's first act, a file that it makes. One training
after the other, each until its ModelVersion is ready; then with two workers, with a dataset, and many at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.locate import find_access
from modelwright.adapters.kubernetes.resource import of_kind
from modelwright.api.kinds import TRAINING_MODEL

MODELWRIGHT = Path(sys.executable).with_name("modelwright")
RESOURCE = of_kind(TRAINING_MODEL)
GOAL = 0.5
FIRST_ACT = "mkdir -p $KUBEDL_MODEL_PATH; : > $KUBEDL_MODEL_PATH/ran-$RANK"
POLL_SECONDS = 0.02
PATIENCE_SECONDS = 60.0


@contextmanager
def running(data: Path) -> Iterator[None]:
    """`modelwright up`, until the block ends."""
    command = [str(MODELWRIGHT), "up", "--data-dir", str(data), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), line
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


class Bench:
    """Creates trainings, each with a folder of its own."""

    def __init__(self, client: KubernetesClient, folder: Path) -> None:
        self._client = client
        self._folder = folder

    async def seconds(self, name: str, **spec: Any) -> float:
        """From just before it is sent until the last of its workers has made its file."""
        storage = {"localStorage": {"path": str(self._folder / name), "nodeName": "here"}}
        wanted = {
            "apiVersion": TRAINING_MODEL.api_version,
            "kind": "TrainingModel",
            "metadata": {"name": name},
            "spec": {
                "modelName": "digits",
                "command": ["/bin/sh", "-c", FIRST_ACT],
                "storage": storage,
                "imageRepo": "modelhub/digits",
                **spec,
            },
        }
        began = time.time_ns()
        await self._client.create(RESOURCE, "default", wanted)
        await self._until_ready(name)
        made = [path.stat().st_mtime_ns for path in (self._folder / name).glob("ran-*")]
        assert len(made) == spec.get("workers", 1), f"{name}: {len(made)} workers have run"
        return (max(made) - began) / 1e9

    async def _until_ready(self, name: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_ready(found := await self._client.get(RESOURCE, "default", name)):
            assert time.monotonic() < end, f"{name} is not ready: {found.get('status')}"
            await asyncio.sleep(POLL_SECONDS)


def is_ready(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def report(what: str, seconds: list[float], goal: float = 0.0) -> None:
    p50, worst = statistics.median(seconds), max(seconds)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    met = f"goal p50 <= {goal:g} s: {'met' if p50 <= goal else 'MISSED'}" if goal else ""
    print(f"  {what:44} p50 {p50:.3f} s  p95 {p95:.3f} s  max {worst:.3f} s  {met}", flush=True)


async def measure(kubeconfig: Path, folder: Path, count: int) -> None:
    (folder / "train.csv").write_text("1,2\n")
    dataset = {"name": "digits", "uri": f"file://{folder}/train.csv"}
    async with KubernetesClient(find_access(kubeconfig)) as client:
        bench = Bench(client, folder)
        await bench.seconds("warm")
        report(f"{count} trainings, one after the other", [await bench.seconds(f"t-{n}") for n in range(count)], GOAL)
        few = max(5, count // 3)
        report(f"{few} with two workers", [await bench.seconds(f"w-{n}", workers=2) for n in range(few)])
        report(f"{few} with a dataset", [await bench.seconds(f"d-{n}", datasets=[dataset]) for n in range(few)])
        report("20 at once", await asyncio.gather(*(bench.seconds(f"many-{n}") for n in range(20))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer trainings")
    parser.add_argument("--trainings", type=int, default=40)
    options = parser.parse_args()
    os.environ.pop("KUBECONFIG", None)
    print("TrainingModel applied until its command runs")
    with tempfile.TemporaryDirectory(prefix="modelwright-bench-") as name:
        folder = Path(name)
        (folder / "models").mkdir()
        with running(folder / "data"):
            count = 30 if options.quick else options.trainings
            asyncio.run(measure(folder / "data" / "kubeconfig", folder / "models", count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
