"""A keeper and a real model server beside each other, on the folders of one Pod."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
from tests.integration import clients
from tests.integration.serve.site import Client, Load
from tests.integration.serving_agent.pod import DEADLINE_SECONDS, Keeper, Pod

from modelwright.ports.serving import ServeTask
from modelwright.ports.workloads import ServedVersion
from modelwright.serve.state import ServerState

FAST = Path(__file__).with_name("keeper_program.py")
"""A keeper that tries again soon."""


class Beside:
    """The Pod's annotation is `want`; `serve` starts the server, which waits for its configuration."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._generation = 0

    def want(self, *versions: ServedVersion, **changes: object) -> ServeTask:
        """Change the annotation, as the kubelet shows it: a link to a folder of files that is replaced."""
        task = self.pod.task(*versions, port=self.port, **changes)
        self.show(msgspec.json.encode(task))
        return task

    def show(self, content: bytes) -> None:
        folder = self.pod.task_file.parent
        self._generation += 1
        data = folder / f"..{self._generation}"
        data.mkdir()
        (data / self.pod.task_file.name).write_bytes(content)
        fresh = folder / "..data_tmp"
        fresh.symlink_to(data.name)
        fresh.replace(folder / "..data")
        if not self.pod.task_file.is_symlink():
            self.pod.task_file.symlink_to(Path("..data") / self.pod.task_file.name)

    def keep(self, *prefix: str, **timing: float) -> Keeper:
        """Start a keeper; with `timing`, not with the times of production."""
        if not timing:
            return Keeper(self.pod, (*prefix, sys.executable, "-m", "modelwright", "agent", "keep"))
        values = [f"{name}={value}" for name, value in timing.items()]
        return Keeper(self.pod, (*prefix, sys.executable, str(FAST), *values))

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the server."""
        command = [sys.executable, "-m", "modelwright", "server", "--config", str(self.pod.run_folder / "config.json")]
        options = ["--state", str(self.state_path), "--host", "127.0.0.1", "--port", str(self.port), "--stay"]
        with (self.pod.folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *options], env={**os.environ}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.pod.started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill it, as the kernel does."""
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_SECONDS)

    @property
    def state_path(self) -> Path:
        return self.pod.run_folder / "state.json"

    @property
    def state(self) -> ServerState:
        return msgspec.json.decode(self.state_path.read_bytes(), type=ServerState)

    def load(self) -> Load:
        """Predictions without a pause."""
        return Load(self.port)

    def answers(self) -> int:
        """Which version answers; waits until one does."""

        def ask() -> int | None:
            try:
                with Client(self.port) as client:
                    return client.times()
            except (OSError, AssertionError):
                return None

        found = clients.wait_for(ask, "an answer", DEADLINE_SECONDS)
        assert isinstance(found, int)
        return found
