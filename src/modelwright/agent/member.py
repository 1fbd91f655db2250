"""One worker of a command: a process with a group of its own."""

from __future__ import annotations

import contextlib
import errno
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
        """Raises OSError, with the word that names the program and what is wrong with it, and ValueError."""
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
        except OSError as error:
            raise OSError(error.errno, _wrong_with(self._program, error, cwd), self._program.argv[0]) from error
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


def _wrong_with(program: Program, error: OSError, cwd: str) -> str:
    """The system's words, and what they mean here."""
    word, said = program.argv[0], error.strerror or str(error)
    if error.filename == cwd:
        return f"its working folder {cwd}: {said}"
    if error.errno == errno.ENOENT:
        return f"{said}{_missing(word, program.env)}"
    if error.errno == errno.ENOEXEC:
        return f"{said}: a script needs a first line such as #!/bin/sh"
    return said


def _missing(word: str, env: dict[str, str]) -> str:
    """Why no program of that name was found."""
    if "/" not in word:
        return f", on this PATH: {env.get('PATH', os.environ.get('PATH', os.defpath))}"
    if not word.startswith("/"):
        return ": a command runs in a folder of its own, so give the program's absolute path"
    return ": it is there, and the interpreter that its first line names is not" if os.path.lexists(word) else ""


def _print(data: bytes) -> None:
    """On a full disk output is lost, and the command goes on."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return
