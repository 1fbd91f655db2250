"""A program that a test starts, kills, freezes, wakes and starts again."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.contract.kube_apiserver import StartError

DEADLINE_SECONDS = 120.0


class Program:
    """One program with its log; each `start` begins a new process, the log goes on."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None):
        self.name = name
        self.log = log
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that was started last. Raises StartError if none was."""
        if self._process is None:
            raise StartError(f"{self.name} was never started")
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.alive:
            return
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Raises StartError when it ends before it is ready, or takes too long; the message has the end of its log."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not ready():
            self.must_run()
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} was not ready in {DEADLINE_SECONDS:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def must_run(self) -> None:
        """Raises StartError if it has ended by itself."""
        if not self.alive:
            code = self._process.returncode if self._process is not None else None
            raise StartError(f"{self.name} ended with {code}:\n{self.tail()}")

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a word, and see it gone."""
        self.send(signal.SIGKILL)
        self.join()

    def stop(self, seconds: float = 10.0) -> int:
        """Ask it to end, make it end if it does not; its exit code."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        if self._process is None:
            return 0
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def join(self) -> None:
        if self._process is not None:
            self._process.wait()

    def tail(self, lines: int = 40) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def _die_with_parent() -> None:
    """A test run that is killed must leave nothing behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
