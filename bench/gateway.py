"""What the gateway costs, and how it answers while the cloud model hangs.

    .venv/bin/python bench/gateway.py [--quick]

Two model servers with scikit-learn's digits (a small and a larger network, as ONNX), the gateway before them, and an
open load: requests start when the clock says so, whatever became of the former ones, and a late start counts as
latency. Rounds alternate between the edge server asked directly and the gateway, so that both see the same machine;
the figures are medians over rounds. Then the cloud server is stopped (SIGSTOP: its connections stay open and nothing
comes) and every row is hard.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from modelwright.http.connection import Connection
from modelwright.http.pool import Pool
from modelwright.http.server import loop_factory
from modelwright.http.streams import open_stream

RATE = 200
MOST_ADDED_P50, MOST_ADDED_P99 = 2.0, 10.0
TIMEOUT = 0.5
"""Of the gateway before the cloud model that hangs; the other one has the default of 2 s."""
WITHIN, ALL_WITHIN = 0.050, 0.250
SHARE_WITHIN = 99.9


class Case(NamedTuple):
    """A load: protocol, rows in a request, and the share of its rows that is hard."""

    name: str
    protocol: str
    rows: int
    hard: float


CASES = [
    Case("v1, 1 row, none hard", "v1", 1, 0.0),
    Case("v2, 1 row, none hard", "v2", 1, 0.0),
    Case("v1, 32 rows, none hard", "v1", 32, 0.0),
    Case("v1, 1 row, 20 % hard", "v1", 1, 0.2),
    Case("v2, 32 rows, 20 % hard", "v2", 32, 0.2),
]


class Run(NamedTuple):
    """Latencies in ms, and how many requests were not answered with 200."""

    latencies: list[float]
    errors: int

    def at(self, percent: float) -> float:
        return float(np.percentile(self.latencies, percent))


# Models -------------------------------------------------------------------------------------------------------------


def write_model(folder: Path, sizes: list[int]) -> None:
    """A perceptron whose last input column scales its logits: 30 makes a row easy, 0 makes it hard."""
    random = np.random.default_rng(sum(sizes))
    nodes, weights, tensor = [], [], "rest"
    nodes.append(helper.make_node("Split", ["input", "split"], ["rest", "scale"], axis=1))
    weights.append(numpy_helper.from_array(np.array([sizes[0] - 1, 1], np.int64), "split"))
    for index, (rows, columns) in enumerate(pairwise([sizes[0] - 1, *sizes[1:]])):
        matrix = (random.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{index}"))
        nodes.append(helper.make_node("MatMul", [tensor, f"w{index}"], [f"m{index}"]))
        nodes.append(helper.make_node("Relu", [f"m{index}"], [f"r{index}"]))
        tensor = f"r{index}"
    nodes += [
        helper.make_node("Hardmax", [tensor], ["onehot"], axis=1),
        helper.make_node("Mul", ["onehot", "scale"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["probabilities"]),
        helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0),
    ]
    outputs: list[tuple[str, Any, Any]] = [
        ("label", TensorProto.INT64, ["n"]),
        ("probabilities", TensorProto.FLOAT, ["n", sizes[-1]]),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", sizes[0]])],
        [helper.make_tensor_value_info(*each) for each in outputs],
        weights,
    )
    folder.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")


def body(case: Case, seed: int) -> bytes:
    """A request of that case."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 17, (case.rows, 65)).astype(float)
    rows[:, -1] = np.where(random.random(case.rows) < case.hard, 0.0, 30.0)
    if case.protocol == "v1":
        return json.dumps({"instances": rows.tolist()}).encode()
    tensor = {"name": "input", "shape": [case.rows, 65], "datatype": "FP32", "data": rows.ravel().tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


# Processes ----------------------------------------------------------------------------------------------------------


class Server(NamedTuple):
    """A running server."""

    process: subprocess.Popen[str]
    port: int


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[Server]:
    """A server process of ours, once it says that it is ready."""
    command = [sys.executable, "-m", *arguments, "--listen", "127.0.0.1:0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield Server(process, int(process.stdout.readline().rpartition(":")[2]))
        finally:
            process.kill()


@contextlib.contextmanager
def site(work: Path) -> Iterator[tuple[Server, Server, list[str]]]:
    """Edge, cloud, and how a gateway before them is started."""
    write_model(work / "edge", [65, 64, 10])
    write_model(work / "cloud", [65, 256, 256, 10])
    server = ("modelwright.serve", "--framework", "onnx", "--name", "digits", "--model-dir")
    with started(*server, str(work / "edge")) as edge, started(*server, str(work / "cloud")) as cloud:
        urls = [f"http://127.0.0.1:{each.port}/v1/models/digits" for each in (edge, cloud)]
        yield edge, cloud, ["modelwright.gateway", "--edge", urls[0], "--cloud", urls[1]]


# Load ---------------------------------------------------------------------------------------------------------------


async def load(port: int, case: Case, seconds: float) -> Run:
    """An open load on one server."""
    path = "/v1/models/digits:predict" if case.protocol == "v1" else "/v2/models/digits/infer"
    requests = []
    for seed in range(64):
        content = body(case, seed)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
        requests.append((head.encode(), content))

    async def connect() -> Connection:
        return Connection(*await open_stream("127.0.0.1", port))

    pool, latencies, errors = Pool(connect), [], 0

    async def one(number: int, due: float) -> None:
        nonlocal errors
        try:
            response = await pool.exchange(*requests[number % len(requests)], again=True)
            errors += response.status != 200
        except Exception:
            errors += 1
        latencies.append((time.perf_counter() - due) * 1000)

    began = time.perf_counter() + 0.05
    async with asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * RATE)):
            due = began + number / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.create_task(one(number, due))
    await pool.aclose()
    return Run(latencies, errors)


def run_load(port: int, case: Case, seconds: float) -> Run:
    """The load in this process."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(load(port, case, seconds))


def compare(case: Case, edge: Server, gateway: Server, rounds: int, seconds: float) -> bool:
    """Alternating rounds; prints a line; whether the targets are met without an error."""
    runs: dict[str, list[Run]] = {"edge": [], "gateway": []}
    for turn in range(rounds):
        order = (("edge", edge), ("gateway", gateway))
        for name, server in order if turn % 2 == 0 else order[::-1]:
            runs[name].append(run_load(server.port, case, seconds))
    middle = {
        (name, percent): statistics.median(run.at(percent) for run in found)
        for name, found in runs.items()
        for percent in (50, 99)
    }
    added = [middle["gateway", percent] - middle["edge", percent] for percent in (50, 99)]
    errors = sum(run.errors for found in runs.values() for run in found)
    met = added[0] <= MOST_ADDED_P50 and added[1] <= MOST_ADDED_P99 and not errors
    print(
        f"{case.name:26}{middle['edge', 50]:10.2f}{middle['edge', 99]:8.2f}"
        f"{middle['gateway', 50]:12.2f}{middle['gateway', 99]:8.2f}{added[0]:10.2f}{added[1]:8.2f}{errors:8}"
        f"  {'met' if met else 'MISSED'}",
        flush=True,
    )
    return met


def hang(cloud: Server, gateway: Server, seconds: float) -> bool:
    """Every row is hard and the cloud server is stopped."""
    cloud.process.send_signal(signal.SIGSTOP)
    run = run_load(gateway.port, Case("", "v1", 1, 1.0), seconds)
    cloud.process.send_signal(signal.SIGCONT)
    late = [latency / 1000 - TIMEOUT for latency in run.latencies]
    share = 100 * sum(each <= WITHIN for each in late) / len(late)
    met = share >= SHARE_WITHIN and max(late) <= ALL_WITHIN and not run.errors
    print(
        f"cloud hangs, timeout {TIMEOUT} s, {len(late)} requests: {share:.2f} % within timeout + 50 ms "
        f"(wanted {SHARE_WITHIN} %), the last after timeout {max(late) * 1000:+.0f} ms (wanted +250), "
        f"p50 {run.at(50):.1f} ms, {run.errors} errors  {'met' if met else 'MISSED'}",
        flush=True,
    )
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    quick = parser.parse_args().quick
    rounds, seconds = (3, 4.0) if quick else (5, 10.0)
    print(f"{RATE} requests/s, open load, {rounds} rounds of {seconds:g} s each; latencies in ms")
    print(f"{'':26}{'edge':>10}{'':8}{'gateway':>12}{'':8}{'added':>10}")
    print(f"{'':26}{'p50':>10}{'p99':>8}{'p50':>12}{'p99':>8}{'p50':>10}{'p99':>8}{'errors':>8}")
    with tempfile.TemporaryDirectory() as folder, site(Path(folder)) as (edge, cloud, command):
        with started(*command) as gateway:
            results = [compare(case, edge, gateway, rounds, seconds) for case in CASES]
        with started(*command, "--timeout", str(TIMEOUT)) as gateway:
            results.append(hang(cloud, gateway, 10.0 if quick else 30.0))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
