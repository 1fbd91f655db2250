"""One worker of a command: a process with a group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from datetime import UTC, datetime
from typing import NamedTuple

from modelwright.agent.lines import Lines

_CHUNK = 64 * 1024
_LEFT_OVER = 16
"""How many chunks are still read once a worker has ended: more than a pipe holds."""


class Program(NamedTuple):
    """What a worker runs; `env` comes on top of this process's environment."""

    argv: list[str]
    env: dict[str, str]


class Member:
    """With `piped`, what it prints is passed on in whole lines that name it; else it has our standard output."""

    def __init__(self, name: str, program: Program, *, piped: bool) -> None:
        self.name = name
        self.pid = 0
        self.code: int | None = None
        """Negative: the signal that ended it; None before it has ended."""
        self.finished = ""
        self.pipe = -1
        self._program = program
        self._piped = piped
        self._lines = Lines(f"{name}: ".encode())

    @property
    def active(self) -> bool:
        return self.pid > 0 and self.code is None

    @property
    def state(self) -> dict[str, object]:
        return {"pid": self.pid, "exitCode": self.code, "finishedAt": self.finished or None}

    def start(self, cwd: str) -> None:
        """Raises OSError."""
        writer = None
        if self._piped:
            self.pipe, writer = os.pipe()
            os.set_blocking(self.pipe, False)
        try:
            process = subprocess.Popen(
                self._program.argv,
                cwd=cwd,
                env={**os.environ, **self._program.env},
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=subprocess.STDOUT if self._piped else None,
                process_group=0,
            )
        finally:
            if writer is not None:
                os.close(writer)
        process.returncode = 0  # it is reaped with all others
        self.pid = process.pid

    def ended(self, code: int) -> None:
        """Note its end, and end what it has left in its group."""
        self.code = code
        self.finished = datetime.now(UTC).isoformat()
        self._kill(signal.SIGKILL)
        self.close()

    def send(self, number: signal.Signals) -> None:
        """Signal its group, if it has not ended."""
        if self.active:
            self._kill(number)

    def copy(self) -> bool:
        """Pass on what it has printed since; False if that is nothing."""
        try:
            data = os.read(self.pipe, _CHUNK)
        except BlockingIOError:
            return False
        _print(self._lines.feed(data))
        return bool(data)

    def close(self) -> None:
        """Pass on the rest. Whoever still holds the pipe's other end is not waited for."""
        if self.pipe < 0:
            return
        for _ in range(_LEFT_OVER):
            if not self.copy():
                break
        _print(self._lines.end())
        os.close(self.pipe)
        self.pipe = -1

    def _kill(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _print(data: bytes) -> None:
    """On a full disk output is lost, and the command goes on."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return
