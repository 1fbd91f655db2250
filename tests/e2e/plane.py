"""A real control plane in a process of its own, and the programs that talk to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

BIN = Path(sys.executable).parent
TOOLS = Path(__file__).parents[1] / "tools" / "install.py"
DEADLINE = 90.0

T = TypeVar("T")


def until(condition: Callable[[], T | None], what: str, seconds: float = DEADLINE) -> T:
    """Wait until the condition gives something true, and return that."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)
    return found


class ControlPlane:
    """`modelwright up` on a data directory; it can be killed and started again."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.log = data.parent / f"{data.name}.log"
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def environment(self) -> dict[str, str]:
        """What clients need to find it, and nothing of the user's own configuration."""
        home = self.data.parent / "home"
        home.mkdir(exist_ok=True)
        return {**os.environ, "KUBECONFIG": str(self.data / "kubeconfig"), "HOME": str(home), "NO_COLOR": "1"}

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    @property
    def registry(self) -> str:
        """HOST:PORT of the embedded registry."""
        return self.url.removeprefix("http://")

    def start(self) -> None:
        command = [str(BIN / "modelwright"), "up", "--data-dir", str(self.data), "--listen", "127.0.0.1:0"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=self.environment, start_new_session=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), f"{line!r}: {self.log.read_text()}"
        self.url = line.split()[1]

    def kill(self) -> None:
        """SIGKILL, as the system does when memory runs out."""
        assert self.process is not None
        self.process.kill()
        self._forget()

    def stop(self) -> int:
        """SIGINT, as Ctrl-C does; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._forget()
        return code

    def _forget(self) -> None:
        assert self.process is not None
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

    def processes(self) -> list[psutil.Process]:
        """All processes that work on this data directory, by their command line or the mark in their environment."""
        mark = self.data / "run" / "id"
        marks = [str(self.data), *([mark.read_text().strip()] if mark.exists() else [])]
        return [process for process in psutil.process_iter() if mentions(process, marks)]

    # Clients --------------------------------------------------------------------------------------------------------

    def run(self, *arguments: str, stdin: str | None = None, code: int | None = 0) -> str:
        """A verb of the command line; what it prints on stdout, or stderr where another exit code is expected."""
        return self._client([str(BIN / "modelwright"), *arguments], stdin, code)

    def kubectl(self, *arguments: str, stdin: str | None = None, code: int | None = 0) -> str:
        """The real kubectl; what it prints."""
        cache = self.data.parent / "kubectl-cache"
        return self._client([str(programs() / "kubectl"), f"--cache-dir={cache}", *arguments], stdin, code)

    def get(self, kind: str, name: str) -> Any:
        return json.loads(self.run("get", kind, name, "-o", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        documents = "\n---\n".join(json.dumps(each) for each in objects)
        self.kubectl("apply", "-f", "-", stdin=documents)

    def condition(self, kind: str, name: str, type_: str = "Ready") -> dict[str, Any]:
        """A condition of an object, empty while there is none."""
        conditions = self.get(kind, name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == type_), {})

    def until_ready(self, kind: str, name: str) -> Any:
        """Wait until this very generation is Ready; the object."""

        def ready() -> Any:
            found = self.get(kind, name)
            conditions = found.get("status", {}).get("conditions", [])
            generation = found["metadata"]["generation"]
            good = any(
                each["type"] == "Ready" and each["status"] == "True" and each.get("observedGeneration") == generation
                for each in conditions
            )
            return found if good else None

        return until(ready, f"{kind}/{name} is Ready; see {self.log}")

    def until_reason(self, kind: str, name: str, reason: str, type_: str = "Stalled") -> str:
        """Wait until the condition is True for this reason; its message."""

        def there() -> dict[str, Any] | None:
            found = self.condition(kind, name, type_)
            return found if found.get("status") == "True" and found.get("reason") == reason else None

        found = until(there, f"{kind}/{name} is {type_} with {reason}")
        return str(found["message"])

    def _client(self, command: list[str], stdin: str | None, code: int | None) -> str:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=self.environment)
        told = f"{' '.join(command[1:])}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        assert code is None or done.returncode == code, told
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr


def command_of(process: psutil.Process) -> str:
    """Its command line, empty if it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def mentions(process: psutil.Process, marks: list[str]) -> bool:
    try:
        words = [*process.cmdline(), process.environ().get("MODELWRIGHT_NONCE", "")]
        return any(mark in word for mark in marks for word in words)
    except psutil.Error:
        return False


def programs() -> Path:
    """The folder of the programs that the tests run against."""
    printed = subprocess.run([sys.executable, str(TOOLS), "--print"], check=True, capture_output=True, text=True)
    return Path(printed.stdout.strip())


# Objects --------------------------------------------------------------------------------------------------------------


def model_version(name: str, path: Path, **spec: Any) -> dict[str, Any]:
    storage = {"localStorage": {"path": str(path), "nodeName": "here"}}
    return {
        "apiVersion": "model.kubedl.io/v1alpha1",
        "kind": "ModelVersion",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"modelName": "digits", "imageRepo": "modelhub/digits", "storage": storage, **spec},
    }


def inference_model(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"modelName": name, "deployToLayer": "cloud", "frameworkType": "sklearn", **spec},
    }
