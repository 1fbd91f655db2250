"""Server processes on real sockets, and clients that note every fault."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration import clients

from modelwright.serve.state import ServerState

DEADLINE = 90.0


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition; fails after a generous deadline."""
    return clients.wait_for(condition, what, DEADLINE)


class Site:
    """A folder with a configuration and a state file, and the processes started on it."""

    def __init__(self, folder: Path, models: Path) -> None:
        self.folder = folder
        self.models = models
        self.config = folder / "config.json"
        self.processes: list[ServerProcess] = []

    def write(self, *numbers: int, default: int | None = None, **rest: Any) -> None:
        """Writes the configuration, whole at once; a version vN is the model that multiplies by N."""
        versions = [
            {"version": f"v{n}", "number": n, "path": str(self.models / str(n)), "labels": [f"l{n}"]} for n in numbers
        ]
        content = {
            "modelName": "times",
            "frameworkType": "onnx",
            "versions": versions,
            "defaultVersion": f"v{default or numbers[-1]}",
            **rest,
        }
        temporary = self.folder / "config.new"
        temporary.write_text(json.dumps(content))
        temporary.replace(self.config)

    @property
    def digest(self) -> str:
        """The SHA-256 of the configuration, by which a state says that it is applied."""
        return hashlib.sha256(self.config.read_bytes()).hexdigest()

    def start(self, *arguments: str, **rest: Any) -> ServerProcess:
        process = ServerProcess(self, len(self.processes), arguments, **rest)
        self.processes.append(process)
        return process


class ServerProcess:
    """A server started on the site's configuration."""

    def __init__(
        self,
        site: Site,
        index: int,
        arguments: tuple[str, ...],
        fd: int | None = None,
        env: dict[str, str] | None = None,
        listen: bool = True,
    ) -> None:
        self.state_path = site.folder / f"state-{index}.json"
        self.log = site.folder / f"log-{index}.txt"
        self.out = site.folder / f"out-{index}.txt"
        place = ["--listen", "127.0.0.1:0"] if fd is None else ["--fd", str(fd)]
        place = place if listen else []
        command = [sys.executable, "-m", "modelwright.serve", "--config", str(site.config)]
        with self.log.open("wb") as log, self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                [*command, "--state", str(self.state_path), *place, *arguments],
                stdout=out,
                stderr=log,
                env=os.environ | (env or {}),
                pass_fds=[] if fd is None else [fd],
            )

    @property
    def state(self) -> ServerState:
        import msgspec

        return msgspec.json.decode(self.state_path.read_bytes(), type=ServerState)

    def shows(self, condition: Callable[[ServerState], Any], what: str) -> ServerState:
        """Waits for a state; fails with the log if the process ends first."""

        def look() -> ServerState | None:
            if self.state_path.exists() and condition(self.state):
                return self.state
            assert self.popen.poll() is None, self.log.read_text()
            return None

        found: ServerState = wait_for(look, what)
        return found

    def ready(self) -> ServerProcess:
        self.shows(lambda state: state.phase == "ready", "the server to be ready")
        return self

    @property
    def port(self) -> int:
        """Once it says that it is ready."""
        return self._port(self.out, "ready ")

    @property
    def early_port(self) -> int:
        """As soon as it listens, with a model or without."""
        return self._port(self.log, "listening on ")

    def _port(self, file: Path, said: str) -> int:
        def line() -> str:
            assert self.popen.poll() is None, self.log.read_text()
            lines = file.read_text().splitlines(keepends=True)
            return next((line for line in lines if said in line and line.endswith("\n")), "")

        return int(wait_for(line, said).rpartition(":")[2])

    @property
    def reports(self) -> list[ServerState]:
        """The states that it has printed."""
        import msgspec

        lines = self.out.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.startswith("{") and line.endswith("\n")]
        return [msgspec.json.decode(line, type=ServerState) for line in whole]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.exit()

    def exit(self) -> int:
        return self.popen.wait(DEADLINE)


class Client(clients.Connection):
    """One connection, kept open as long as the server allows."""

    def __init__(self, port: int) -> None:
        super().__init__(port, DEADLINE)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, http.client.HTTPMessage, Any]:
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data)
        response = self.connection.getresponse()
        return response.status, response.headers, json.loads(response.read())

    def times(self) -> int:
        """Which version answers; the body and the header must agree."""
        status, headers, answer = self.ask("POST", "/v1/models/times:predict", {"instances": [[1, 0]]})
        assert status == 200, (status, answer)
        number = int(answer["predictions"][0][0])
        assert headers["X-Model-Version"] == f"v{number}"
        return number


class Load(clients.Asking[Client, int]):
    """Predictions without a pause: which version answered."""

    def __init__(self, port: int) -> None:
        super().__init__(lambda: Client(port), DEADLINE)

    def ask(self, client: Client) -> int:
        return client.times()
