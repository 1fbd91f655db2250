"""The embedded control plane's store, as its clients see it: over HTTPS, in a process of its own.

    python bench/control_plane_store.py

Durable writes per second from 16 writers; 10,000 objects in one GET, plain and as a Table; resident memory of the
process with 1,000 and with 10,000 objects, and above what its imports take; time until it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

WRITERS = 16
WRITE_SECONDS = 5.0
OBJECTS = 10_000
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
COLLECTION = "/apis/model.kubedl.io/v1alpha1/namespaces/default/modelversions"


async def serve(data_dir: Path) -> None:
    """The process that is measured: store, API server, TLS."""
    from modelwright.adapters.embedded.apiserver.app import create_api_app
    from modelwright.adapters.embedded.apiserver.listener import Listener, Tls, listen
    from modelwright.adapters.embedded.certificates import credentials
    from modelwright.adapters.embedded.store import EmbeddedStore

    imported = psutil.Process().memory_info().rss
    store = await EmbeddedStore.open(data_dir)
    found = credentials(data_dir)
    app = create_api_app(store.resources, found.token)
    listener = Listener(app, listen("127.0.0.1", 0), tls=Tls(found.certificate, found.key))
    await listener.start()
    print(json.dumps({"port": listener.port, "token": found.token, "imported": imported}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await store.close()
    await listener.stop()


class Server:
    """The measured process, and connections to it."""

    def __init__(self, process: subprocess.Popen[str], data_dir: Path, seconds: float) -> None:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        self.seconds = time.perf_counter() - seconds
        self.process = psutil.Process(process.pid)
        self._port, self._token, self.imported = said["port"], said["token"], said["imported"]
        self._tls = ssl.create_default_context(cafile=str(data_dir / "tls" / "ca.crt"))

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=60)

    def ask(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: str | None = None, accept: str = ""
    ) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept or "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise SystemExit(f"{method} {path}: {response.status} {answer[:500]!r}")
        return answer

    def mebibytes(self) -> float:
        return self.process.memory_info().rss / 2**20


@contextlib.contextmanager
def running(data_dir: Path) -> Iterator[Server]:
    began = time.perf_counter()
    command = [sys.executable, __file__, "serve", str(data_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Server(process, data_dir, began)
        assert process.stdin is not None
        process.stdin.close()


def model_version(name: str) -> str:
    """A ModelVersion of ordinary size, about 1 KiB once stored."""
    labels = {f"example.com/label-{number}": f"value-{number}" for number in range(8)}
    metadata = {"name": name, "labels": labels, "annotations": {"example.com/note": "x" * 200}}
    storage = {"localStorage": {"path": "/models/resnet", "nodeName": "node-0"}}
    spec = {"modelName": "resnet", "createdBy": "bench", "imageRepo": "modelhub/resnet", "storage": storage}
    head = {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "ModelVersion"}
    return json.dumps({**head, "metadata": metadata, "spec": spec})


def in_threads(count: int, work: Callable[[int], None]) -> float:
    """Run work(0..count-1) at once; seconds until the last has ended."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def create(server: Server, first: int, last: int) -> float:
    def work(writer: int) -> None:
        with contextlib.closing(server.connect()) as connection:
            for number in range(first + writer, last, WRITERS):
                server.ask(connection, "POST", COLLECTION, model_version(f"version-{number:05}"))

    return (last - first) / in_threads(WRITERS, work)


def update_statuses(server: Server, objects: int) -> tuple[float, list[float]]:
    """Status patches per second, and the milliseconds that each took."""
    took: list[float] = []

    def work(writer: int) -> None:
        end = time.perf_counter() + WRITE_SECONDS
        with contextlib.closing(server.connect()) as connection:
            count = 0
            while (began := time.perf_counter()) < end:
                name = f"version-{(writer + WRITERS * count) % objects:05}"
                patch = json.dumps({"status": {"message": f"{writer} {count}", "attempts": count}})
                server.ask(connection, "PATCH", f"{COLLECTION}/{name}/status", patch)
                took.append((time.perf_counter() - began) * 1000)
                count += 1

    seconds = in_threads(WRITERS, work)
    return len(took) / seconds, took


def list_all(server: Server, accept: str) -> tuple[float, int]:
    """The best of five, in seconds; and the length of the answer."""
    with contextlib.closing(server.connect()) as connection:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            answer = server.ask(connection, "GET", COLLECTION, accept=accept)
            times.append(time.perf_counter() - began)
    return min(times), len(answer)


def report(name: str, value: float, unit: str, goal: str = "") -> None:
    print(f"{name:<52} {value:>10.2f} {unit:<8} {goal}", flush=True)


def measure(data_dir: Path) -> None:
    with running(data_dir) as server:
        report("ready, first start (makes keys and database)", server.seconds, "s")
        idle = server.imported / 2**20
        report("resident after imports", idle, "MiB")
        report(f"creations from {WRITERS} writers", create(server, 0, 1000), "per s", ">= 500")
        report("resident with 1,000 objects", server.mebibytes(), "MiB")
        report("... above the imports", server.mebibytes() - idle, "MiB", "<= 30")
        rate, took = update_statuses(server, 1000)
        report(f"status patches from {WRITERS} writers", rate, "per s", ">= 500")
        report("... median", statistics.median(took), "ms")
        report("... 99th percentile", statistics.quantiles(took, n=100)[98], "ms")
        report("resident after the patches", server.mebibytes(), "MiB")
        create(server, 1000, OBJECTS)
        seconds, length = list_all(server, "application/json")
        report(f"list of {OBJECTS:,} objects ({length / 2**20:.1f} MiB)", seconds, "s", "<= 0.5")
        seconds, length = list_all(server, TABLE)
        report(f"... as a Table ({length / 2**20:.1f} MiB)", seconds, "s", "<= 0.5")
        report(f"resident with {OBJECTS:,} objects", server.mebibytes(), "MiB")
    with running(data_dir) as server:
        report(f"ready, second start with {OBJECTS:,} objects", server.seconds, "s", "<= 1.5")
        report("... resident", server.mebibytes(), "MiB")


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2])))
        return
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory(prefix="modelwright-bench-") as folder:
        measure(Path(folder))


if __name__ == "__main__":
    main()
