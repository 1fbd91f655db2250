"""Real processes in a data directory of their own, and clients that note every fault."""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads, Timing
from modelwright.adapters.embedded.workloads.process import NONCE, carrying
from modelwright.oci.local import LocalRepository
from modelwright.oci.push import push_folder
from modelwright.oci.storage import ImageStorage
from modelwright.ports.workloads import (
    ModelImage,
    ModelServer,
    Owner,
    ServedVersion,
    Server,
    ServerStatus,
    TaskStatus,
)

DEADLINE = 30.0
SERVER = (sys.executable, str(Path(__file__).with_name("server_program.py")))
GATEWAY = (sys.executable, str(Path(__file__).with_name("gateway_program.py")))
REGISTRY = "127.0.0.1:5999"
QUICK = Timing(
    backoff_first=0.05,
    backoff_cap=0.4,
    stable_after=60.0,
    fetch_retry_cap=0.5,
    drain=10.0,
    task_grace=2.0,
    task_poll=0.05,
    busy_poll=0.02,
    rest_poll=0.2,
    port_retry=0.2,
    handover_patience=10.0,
    worker_idle=0.3,
    memory_sample=0.1,
)
OWNER = Owner(api_version="sedna.io/v1alpha1", kind="InferenceModel", namespace="default", name="m", uid="uid-1")


def open_workloads(data_dir: Path, timing: Timing = QUICK) -> EmbeddedWorkloads:
    return EmbeddedWorkloads(
        data_dir,
        registry=(REGISTRY, data_dir / "images"),
        server_command=SERVER,
        gateway_command=GATEWAY,
        timing=timing,
    )


def of_data_dir(data_dir: Path) -> list[psutil.Process]:
    """Every process that was started on this data directory and is still there."""
    found = []
    identity = data_dir / "run" / "id"
    if identity.exists():
        for pid, _ in carrying(f"{identity.read_text()}."):
            try:
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
    return found


def nonce_of(process: psutil.Process) -> str:
    return process.environ()[NONCE]


def servers_of(data_dir: Path) -> list[psutil.Process]:
    """The server processes of this data directory."""
    return [process for process in of_data_dir(data_dir) if any("server_program" in word for word in command(process))]


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def place_model(data_dir: Path, text: str) -> ModelImage:
    """An image in the embedded registry of a model that answers `text`."""
    repository = LocalRepository(ImageStorage(data_dir / "images"), "m", host=REGISTRY)
    with tempfile.TemporaryDirectory() as folder, repository.batch():
        (Path(folder) / "answer.txt").write_text(text)
        return ModelImage(f"{REGISTRY}/m@{push_folder(Path(folder), repository).digest}")


def a_server(data_dir: Path, *texts: str, in_place: bool = False, default: str = "", **fields: Any) -> Server:
    """A server of versions named like their texts; the last is the default."""
    versions = tuple(ServedVersion(text, number, place_model(data_dir, text)) for number, text in enumerate(texts, 1))
    program = ModelServer(
        model_name="m", framework="onnx", versions=versions, default=default or texts[-1], in_place=in_place
    )
    values: dict[str, Any] = {"name": "server", "owner": OWNER, "program": program} | fields
    return Server(**values)


async def server_status(workloads: EmbeddedWorkloads, uid: str = OWNER.uid) -> ServerStatus:
    (status,) = await workloads.observe(uid)
    assert isinstance(status, ServerStatus)
    return status


async def until_server(
    workloads: EmbeddedWorkloads, condition: Callable[[ServerStatus], bool], uid: str = OWNER.uid
) -> ServerStatus:
    """The first status that fulfils the condition; fails after a generous deadline."""
    end = time.monotonic() + DEADLINE
    while True:
        status = await server_status(workloads, uid)
        if condition(status):
            return status
        assert time.monotonic() < end, f"waited {DEADLINE} s, now {status}"
        await asyncio.sleep(0.01)


async def until_task(
    workloads: EmbeddedWorkloads, uid: str, condition: Callable[[TaskStatus], bool] | None = None
) -> TaskStatus:
    """The first status that fulfils the condition, by default the end."""
    end = time.monotonic() + DEADLINE
    while True:
        (status,) = await workloads.observe(uid)
        assert isinstance(status, TaskStatus)
        if condition(status) if condition else status.phase in {"Succeeded", "Failed"}:
            return status
        assert time.monotonic() < end, f"waited {DEADLINE} s, now {status}"
        await asyncio.sleep(0.01)


async def until(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition; fails after a generous deadline."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {DEADLINE} s for {what}"
        await asyncio.sleep(0.01)
    return value


def ask(port: int, path: str = "/") -> dict[str, Any]:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        result: dict[str, Any] = json.loads(answer.read())
        return result
    finally:
        connection.close()


class Hammer:
    """Asks all the time; `faults` must stay empty."""

    def __init__(self, port: int, *paths: str) -> None:
        self.port = port
        self.answers: list[str] = []
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(path,)) for path in paths or ("/", "/", "/slow")]

    def _ask(self, path: str) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(ask(self.port, path).get("text", ""))
            except Exception as error:
                self.faults.append(repr(error))
            time.sleep(0.002)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def hammering(port: int, *paths: str) -> Iterator[Hammer]:
    """Ask until the block ends, and find no fault."""
    hammer = Hammer(port, *paths)
    hammer.start()
    try:
        yield hammer
    finally:
        hammer.stop()
    assert hammer.faults == []
    assert hammer.answers


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def serving_folder(root: Path, port: int = 0) -> Iterator[str]:
    """A web server for a folder; the address of its root."""
    with ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def left_running(data_dir: Path) -> AsyncIterator[EmbeddedWorkloads]:
    """Workloads whose processes go on when the block ends."""
    opened = open_workloads(data_dir)
    async with opened:
        try:
            yield opened
        finally:
            await opened.close(stop_servers=False)
