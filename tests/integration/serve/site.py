"""Server processes on real sockets, and clients that note every fault."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modelwright.serve.state import ServerState

DEADLINE = 90.0


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of the condition; fails after a generous deadline."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {DEADLINE} s for {what}")


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
    ) -> None:
        self.state_path = site.folder / f"state-{index}.json"
        self.log = site.folder / f"log-{index}.txt"
        self.out = site.folder / f"out-{index}.txt"
        place = ["--listen", "127.0.0.1:0"] if fd is None else ["--fd", str(fd)]
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
        line = wait_for(self.out.read_text, "the line that says ready")
        return int(line.rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.exit()

    def exit(self) -> int:
        return self.popen.wait(DEADLINE)


class Client:
    """One connection, kept open as long as the server allows."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)

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

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Load:
    """Threads that ask without a pause: half on connections that stay, half on new ones."""

    def __init__(self, port: int) -> None:
        self.answers: list[int] = []
        self.faults: list[str] = []
        self._port = port
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(fresh,)) for fresh in (False, False, True, True)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE)

    def _run(self, fresh: bool) -> None:
        client = Client(self._port)
        while not self._stop.is_set():
            try:
                self.answers.append(client.times())
            except Exception as error:
                self.faults.append(repr(error))
                client.close()
            if fresh:
                client.close()
        client.close()

    def more(self, count: int = 20) -> None:
        """Waits for some more answers."""
        goal = len(self.answers) + count
        wait_for(lambda: len(self.answers) >= goal or self.faults, "answers under load")
