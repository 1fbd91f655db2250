"""The model server under load, beside MLServer, measured with wrk.

    .venv/bin/python bench/serve.py [--quick]

Two ONNX models: `small` (64-64-10, 20 kB) and `medium` (64-1024-2048-1024-10, 17 MB), one thread per request, the same
Open Inference Protocol body for both servers. Rounds alternate between the servers, in turned order, and the figures
are medians; the load generator shares the machine, so read ratios rather than rates. Then 30 version switches under
load. Needs wrk (apt-get install wrk). MLServer and what it needs are installed from PyPI, once, into a virtual
environment of their own in the XDG cache folder, modelwright/bench.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
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
import psutil
from onnx import TensorProto, helper, numpy_helper

MLSERVER = "1.7.1"
PEER_PACKAGES = [f"mlserver=={MLSERVER}", "uvloop<0.22", "onnxruntime", "numpy"]
PEER_RUNTIME = """
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class Onnx(MLModel):
    async def load(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = self.settings.parameters.uri
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.names = [node.name for node in self.session.get_outputs()]
        return True

    async def predict(self, payload):
        tensor = payload.inputs[0]
        results = self.session.run(self.names, {tensor.name: NumpyCodec.decode_input(tensor)})
        outputs = [NumpyCodec.encode_output(name, array) for name, array in zip(self.names, results)]
        return InferenceResponse(model_name=self.name, id=payload.id, outputs=outputs)
"""
PATH = "/v2/models/m/infer"
SWITCHES = 30


class Cell(NamedTuple):
    """One load: model, rows in a request, connections; the least ratio that is wanted, 0 for none."""

    model: str
    batch: int
    connections: int
    target: float = 0.0


CELLS = [
    Cell("small", 1, 1),
    Cell("small", 1, 8, 3.0),
    Cell("small", 32, 8),
    Cell("medium", 1, 8),
    Cell("medium", 32, 8, 1.4),
]
SIZES = {"small": [64, 64, 10], "medium": [64, 1024, 2048, 1024, 10]}


class Run(NamedTuple):
    """What wrk saw."""

    rate: float
    p99: float
    errors: int


class Server(NamedTuple):
    """A running server."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    ready_seconds: float


def write_model(folder: Path, sizes: list[int], seed: int = 0) -> None:
    """A multi-layer perceptron with random weights."""
    random = np.random.default_rng(seed)
    nodes, weights, tensor = [], [], "input"
    for index, (rows, columns) in enumerate(pairwise(sizes)):
        matrix = (random.standard_normal((rows, columns)) / rows**0.5).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{index}")]
        nodes += [helper.make_node("MatMul", [tensor, f"w{index}"], [f"m{index}"])]
        nodes += [helper.make_node("Relu", [f"m{index}"], [f"r{index}"])]
        tensor = f"r{index}"
    nodes += [helper.make_node("Softmax", [tensor], ["probabilities"])]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", sizes[0]])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", sizes[-1]])],
        weights,
    )
    folder.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )


def write_body(path: Path, batch: int) -> None:
    """A request with `batch` rows of 64 numbers."""
    data = np.random.default_rng(1).integers(0, 17, batch * 64).astype(float).tolist()
    path.write_text(json.dumps({"inputs": [{"name": "input", "shape": [batch, 64], "datatype": "FP32", "data": data}]}))


def peer_python() -> Path:
    """The environment with MLServer, made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "modelwright" / "bench" / f"mlserver-{MLSERVER}"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "mlserver").exists():
        print(f"installing {' '.join(PEER_PACKAGES)} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PEER_PACKAGES], check=True)
    return python


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def ask(port: int, body: bytes) -> Any:
    """One request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("POST", PATH, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise OSError(f"{response.status}: {answer}")
        return answer["outputs"][0]["data"]


@contextlib.contextmanager
def started(name: str, command: list[str], port: int, log: Path, body: bytes) -> Iterator[Server]:
    """Runs a server until it has answered once, and ends it at the end."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    begin = time.monotonic()
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            while True:
                with contextlib.suppress(OSError, ValueError):
                    ask(port, body)
                    break
                if process.poll() is not None or time.monotonic() - begin > 60:
                    raise SystemExit(f"{name} does not serve:\n{log.read_text()}")
                time.sleep(0.02)
            yield Server(name, process, port, time.monotonic() - begin)
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()


def ours(work: Path, model: str) -> tuple[list[str], int]:
    """The command of our server, by a configuration file."""
    port = free_port()
    write_config(work, model, 1)
    config = str(work / f"{model}.json")
    return [sys.executable, "-m", "modelwright.serve", "--config", config, "--listen", f"127.0.0.1:{port}"], port


def write_config(work: Path, model: str, number: int) -> None:
    """Version `number` of a model; the even and the odd ones have different weights."""
    folder = work / f"{model}-{number % 2}"
    if not folder.exists():
        write_model(folder, SIZES[model], seed=number % 2)
    version = {"version": f"v{number}", "number": number, "path": str(folder)}
    config = {"modelName": "m", "frameworkType": "onnx", "versions": [version], "defaultVersion": f"v{number}"}
    (work / "new.json").write_text(json.dumps(config))
    (work / "new.json").replace(work / f"{model}.json")


def mlserver(work: Path, model: str, python: Path) -> tuple[list[str], int]:
    """The command of MLServer, set as fast as it goes: no worker processes, no log."""
    folder = work / f"mlserver-{model}"
    folder.mkdir()
    port = free_port()
    (folder / "runtime.py").write_text(PEER_RUNTIME)
    uri = str(work / f"{model}-1" / "model.onnx")
    settings = {"name": "m", "implementation": "runtime.Onnx", "parameters": {"uri": uri}}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    server = {"debug": False, "host": "127.0.0.1", "http_port": port, "parallel_workers": 0, "logging_settings": None}
    server |= {"grpc_port": free_port(), "metrics_port": free_port()}
    (folder / "settings.json").write_text(json.dumps(server))
    return [str(python.parent / "mlserver"), "start", str(folder)], port


def wrk(port: int, body: Path, connections: int, seconds: int) -> Run:
    """One round of load."""
    script = str(Path(__file__).with_name("serve_post.lua"))
    load = ["-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "10s"]
    command = ["wrk", *load, "-s", script, f"http://127.0.0.1:{port}{PATH}", "--", str(body)]
    return parse(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def parse(text: str) -> Run:
    """wrk's report."""
    rate = float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0])
    value, unit = re.findall(r"99%\s+([\d.]+)(us|ms|s)", text)[0]
    p99 = float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]
    refused = sum(map(int, re.findall(r"Non-2xx or 3xx responses: (\d+)", text)))
    broken = sum(int(n) for line in re.findall(r"Socket errors: (.*)", text) for n in re.findall(r"\d+", line))
    return Run(rate, p99, refused + broken)


def compare(servers: list[Server], cell: Cell, work: Path, rounds: int, seconds: int) -> bool:
    """Alternating rounds of one cell; prints a line; whether the target is met without an error."""
    runs: dict[str, list[Run]] = {server.name: [] for server in servers}
    body = work / f"b{cell.batch}.json"
    for turn in range(rounds):
        for server in servers if turn % 2 == 0 else servers[::-1]:
            runs[server.name].append(wrk(server.port, body, cell.connections, seconds))
    (mine, peer) = ([run.rate for run in runs[server.name]] for server in servers)
    tails = [statistics.median(run.p99 for run in runs[server.name]) for server in servers]
    errors = sum(run.errors for every in runs.values() for run in every)
    ratio = statistics.median(mine) / statistics.median(peer)
    met = ratio >= cell.target and not errors
    verdict = f">= {cell.target}x {'met' if met else 'MISSED'}" if cell.target else ""
    print(
        f"{cell.model:8}{cell.batch:6}{cell.connections:6}{statistics.median(mine):12.0f}{statistics.median(peer):12.0f}"
        f"{ratio:8.2f}x{tails[0]:10.1f}{tails[1]:10.1f}{errors:8}  {verdict}",
        flush=True,
    )
    return met


def resident(server: Server) -> float:
    """Memory of the server and its children, MiB."""
    process = psutil.Process(server.process.pid)
    return float(sum(one.memory_info().rss for one in [process, *process.children(recursive=True)]) / 2**20)


def switch(server: Server, work: Path) -> bool:
    """Version switches while wrk loads the server; whether none cost a request."""
    script = str(Path(__file__).with_name("serve_post.lua"))
    url = f"http://127.0.0.1:{server.port}{PATH}"
    seconds = SWITCHES // 5
    command = ["wrk", "-t1", "-c8", f"-d{seconds + 2}s", "--latency", "-s", script, url, "--", str(work / "b1.json")]
    answers: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
        for number in range(2, SWITCHES + 2):
            write_config(work, "small", number)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 10
            while version_of(server) != f"v{number}" and time.monotonic() < deadline:
                time.sleep(0.005)
            answers.append(version_of(server))
            time.sleep(0.1)
        text = load.communicate()[0]
    run = parse(text)
    done = len(set(answers) & {f"v{number}" for number in range(2, SWITCHES + 2)})
    met = done == SWITCHES and run.errors == 0
    print(
        f"\n{done} of {SWITCHES} switches under load: {run.errors} errors, {run.rate:.0f} req/s, p99 {run.p99:.1f} ms  "
        f"{'met' if met else 'MISSED'}"
    )
    return met


def version_of(server: Server) -> str:
    """The version that answers by default."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/v2/models/m/ready")
        return connection.getresponse().headers["X-Model-Version"]


def measure(work: Path, rounds: int, seconds: int) -> bool:
    """Everything; whether all targets are met."""
    python = peer_python()
    for batch in (1, 32):
        write_body(work / f"b{batch}.json", batch)
    heads = [f"{'model':8}{'batch':>6}{'conn':>6}", f"{'ours/s':>12}{'MLServer/s':>12}{'ratio':>9}"]
    print(*heads, f"{'ours p99':>10}{'its p99':>10}{'errors':>8}   (p99 in ms)", sep="")
    met, notes = True, []
    for model in SIZES:
        body = (work / "b32.json").read_bytes()
        mine, peer = ours(work, model), mlserver(work, model, python)
        with (
            started("modelwright", *mine, work / "ours.log", body) as first,
            started("MLServer", *peer, work / "peer.log", body) as second,
        ):
            if not np.allclose(ask(first.port, body), ask(second.port, body), atol=1e-6):
                raise SystemExit(f"the servers do not agree on {model}")
            for cell in CELLS:
                if cell.model == model:
                    met &= compare([first, second], cell, work, rounds, seconds)
            notes += [
                f"{server.name}, {model}: ready in {server.ready_seconds:.2f} s, {resident(server):.0f} MiB"
                for server in (first, second)
            ]
            if model == "small":
                met &= switch(first, work)
    print("\n" + "\n".join(notes))
    return met


def main() -> int:
    """Runs the bench; returns 0 if every target is met."""
    parser = argparse.ArgumentParser(description="Compare the model server with MLServer under load.")
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    quick = parser.parse_args().quick
    if shutil.which("wrk") is None:
        print("wrk is missing: apt-get install wrk", file=sys.stderr)
        return 2
    rounds, seconds = (2, 2) if quick else (5, 4)
    with tempfile.TemporaryDirectory(prefix="modelwright-bench-") as folder:
        return 0 if measure(Path(folder), rounds, seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
