"""Real model servers, a real gateway, and clients that note every fault."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.integration import clients

from modelwright.gateway.state import GatewayState

DEADLINE = 30.0
EASY, HARD = [9.0, 0.0, 0.0], [1.0, 1.1, 0.0]


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition; fails after a generous deadline."""
    return clients.wait_for(condition, what, DEADLINE)


def classifier(folder: Path, offset: int) -> Path:
    """An ONNX model: the place of the highest logit plus an offset, and the softmax."""
    graph = helper.make_graph(
        [
            helper.make_node("Softmax", ["x"], ["probabilities"]),
            helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
            helper.make_node("Add", ["place", "offset"], ["label"]),
        ],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 3]),
        ],
        [numpy_helper.from_array(np.array(offset, np.int64), "offset")],
    )
    folder.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )
    return folder


def estimator(folder: Path, offset: int) -> Path:
    """A scikit-learn classifier of the same rows, whose classes begin at an offset."""
    import skops.io
    from sklearn.linear_model import LogisticRegression

    rows = np.vstack([np.eye(3) * 9, np.eye(3) * 8])
    model = LogisticRegression(C=100.0).fit(rows, np.array([0, 1, 2, 0, 1, 2]) + offset)
    folder.mkdir(parents=True)
    skops.io.dump(model, folder / "model.skops")
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders onnx-0, onnx-50, onnx-100, sklearn-0, sklearn-100."""
    root = tmp_path_factory.mktemp("models")
    for offset in (0, 50, 100):
        classifier(root / f"onnx-{offset}", offset)
    for offset in (0, 100):
        estimator(root / f"sklearn-{offset}", offset)
    return root


class Server:
    """A process of ours that serves; `port` once it says that it is ready."""

    def __init__(self, folder: Path, number: int, arguments: list[str], fd: int | None = None, **env: str) -> None:
        self.log, out = folder / f"log-{number}.txt", folder / f"out-{number}.txt"
        self.out = out
        with self.log.open("wb") as log, out.open("wb") as stdout:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdout=stdout,
                stderr=log,
                env=os.environ | env,
                pass_fds=[] if fd is None else [fd],
            )

    @property
    def port(self) -> int:
        def line() -> str:
            assert self.popen.poll() is None, self.log.read_text()
            lines = self.out.read_text().splitlines(keepends=True)
            return next((line for line in lines if line.startswith("ready ") and line.endswith("\n")), "")

        return int(wait_for(line, "the line that says ready").rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(DEADLINE)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Callable[[str], int]]:
    """The port of a model server that all tests may ask, and none may harm."""
    folder = tmp_path_factory.mktemp("shared")
    running: dict[str, Server] = {}

    def port(name: str) -> int:
        if name not in running:
            running[name] = Server(folder, len(running), serve(models, name, "127.0.0.1:0"))
        return running[name].port

    yield port
    for server in running.values():
        server.popen.kill()
        server.popen.wait()


def serve(models: Path, name: str, listen: str) -> list[str]:
    """The command of a model server."""
    arguments = ["--model-dir", str(models / name), "--framework", name.partition("-")[0]]
    return ["modelwright.serve", *arguments, "--name", "m", "--listen", listen, "--drain-seconds", "0.5"]


class Site:
    """A folder with the gateway's configuration and state, and the processes started on it."""

    def __init__(self, folder: Path, models: Path) -> None:
        self.folder = folder
        self.config = folder / "gateway.json"
        self._models = models
        self._processes: list[Server] = []

    def start(self, *arguments: str, **rest: Any) -> Server:
        server = Server(self.folder, len(self._processes), list(arguments), **rest)
        self._processes.append(server)
        return server

    def model(self, name: str, *, listen: str = "127.0.0.1:0") -> Server:
        """A model server with one of the models, for this test alone."""
        return self.start(*serve(self._models, name, listen))

    def configure(self, edge: int | str = "", cloud: int | str = "", **rest: Any) -> None:
        """Writes the gateway's configuration, whole at once; models are given by port or URL."""
        urls = [f"http://127.0.0.1:{each}/v1/models/m" if isinstance(each, int) else each for each in (edge, cloud)]
        self.write({"name": "joint", "edge": {"url": urls[0]}, "cloud": {"url": urls[1]}, "timeoutSeconds": 30, **rest})

    def write(self, content: Any) -> None:
        """Writes the gateway's configuration, whole at once."""
        temporary = self.folder / "gateway.new"
        temporary.write_text(json.dumps(content))
        temporary.replace(self.config)

    def gateway(self, *arguments: str, **rest: Any) -> Gateway:
        """A gateway on the configuration."""
        return Gateway(self, self.start, arguments, **rest)

    def kill(self) -> None:
        for process in self._processes:
            process.popen.kill()
            process.popen.wait()


class Gateway:
    """A gateway process on the site's configuration."""

    def __init__(self, site: Site, start: Callable[..., Server], arguments: tuple[str, ...], **rest: Any) -> None:
        self._state = site.folder / f"state-{len(list(site.folder.glob('log-*')))}.json"
        place = ["--fd", str(rest["fd"])] if "fd" in rest else ["--listen", "127.0.0.1:0"]
        files = ["--config", str(site.config), "--state", str(self._state), "--drain-seconds", "0.5"]
        self.server = start("modelwright.gateway", *files, *place, *arguments, **rest)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def state(self) -> GatewayState:
        return msgspec.json.decode(self._state.read_bytes(), type=GatewayState)

    @property
    def reports(self) -> list[GatewayState]:
        """The states that it has printed."""
        lines = self.server.out.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.startswith("{") and line.endswith("\n")]
        return [msgspec.json.decode(line, type=GatewayState) for line in whole]

    def shows(self, condition: Callable[[GatewayState], Any], what: str) -> GatewayState:
        """Waits for a state; fails with the log if the process ends first."""

        def look() -> GatewayState | None:
            if self._state.exists() and condition(self.state):
                return self.state
            assert self.server.popen.poll() is None, self.server.log.read_text()
            return None

        found: GatewayState = wait_for(look, what)
        return found

    def ready(self) -> Gateway:
        self.shows(lambda state: state.phase == "ready", "the gateway to be ready")
        return self


@pytest.fixture
def site(tmp_path: Path, models: Path) -> Iterator[Site]:
    found = Site(tmp_path, models)
    yield found
    found.kill()


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def by(self) -> str:
        return self.headers.get("X-Served-By", "")


class Client(clients.Connection):
    """One connection, kept open as long as the server allows."""

    def __init__(self, port: int) -> None:
        super().__init__(port, DEADLINE)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, headers or {})
        response = self.connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def predict(self, *rows: list[float], **rest: Any) -> Answer:
        return self.ask("POST", "/v1/models/joint:predict", {"instances": list(rows), **rest})

    def infer(self, *rows: list[float], name: str = "x", datatype: str = "FP32") -> Answer:
        flat = [value for row in rows for value in row]
        tensor = {"name": name, "shape": [len(rows), 3], "datatype": datatype, "data": flat}
        return self.ask("POST", "/v2/models/joint/infer", {"inputs": [tensor]})


class Load(clients.Asking[Client, Answer]):
    """Predictions without a pause; an answer that is not 200 is a fault, and an answer."""

    def __init__(self, port: int, *rows: list[float]) -> None:
        super().__init__(lambda: Client(port), DEADLINE)
        self._rows = rows or (EASY, HARD)

    def ask(self, client: Client) -> Answer:
        answer = client.predict(*self._rows)
        if answer.status != 200:
            self.faults.append(f"{answer.status}: {answer.body.decode()}")
        return answer


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket that the test holds as a supervisor does."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as found:
        yield found


@pytest.fixture
def load() -> Callable[..., contextlib.AbstractContextManager[Load]]:
    return Load


@pytest.fixture
def client() -> type[Client]:
    return Client
