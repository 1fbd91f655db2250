"""A control plane for the demo alone, and the command line to work with it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

MODELWRIGHT = pathlib.Path(sys.executable).with_name("modelwright")


class DemoFailed(Exception):
    """The demo did not show what it should; the message says why."""


class Client:
    """The command line of Modelwright, against one control plane."""

    def __init__(self, url: str, kubeconfig: pathlib.Path, patience: int = 180) -> None:
        self.url = url
        self._patience = patience
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a verb and return what it prints; raises DemoFailed with its error."""
        command = [str(MODELWRIGHT), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=self._environment)
        if done.returncode != 0:
            raise DemoFailed(f"`modelwright {' '.join(arguments)}`: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def apply(self, *manifests: str) -> None:
        self.run("apply", "-f", "-", stdin="\n---\n".join(manifests))

    def wait(self, *what: str) -> None:
        self.run("wait", *what, "--timeout", f"{self._patience}s")

    def status(self, what: str) -> Any:
        return json.loads(self.run("get", what, "-o", "json"))["status"]


@contextlib.contextmanager
def control_plane(folder: pathlib.Path) -> Iterator[Client]:
    """Run `modelwright up` with its data in the folder, until the end of the block."""
    data, log = folder / "data", folder / "up.log"
    command = [str(MODELWRIGHT), "up", "--data-dir", str(data), "--listen", "127.0.0.1:0"]
    with log.open("w") as said, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if line.startswith("ready ")), "")
            if not line:
                raise DemoFailed(f"`modelwright up` did not start: {log.read_text().strip()}")
            yield Client(line.split()[1], data / "kubeconfig")
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
