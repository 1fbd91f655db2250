"""Runs one command and writes down how it ended: `modelwright agent run --folder DIR [options] -- COMMAND ARG...`.

It outlives the program that started it, so that an exit code is never lost and a command never runs twice:
`started` in the folder is made before the command is, `result.json` once it and its process group are gone.
The deadline, and a SIGTERM to this process, end the group: SIGTERM, then SIGKILL after the grace period.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit status, 0 whenever the result could be written."""
    parser = argparse.ArgumentParser(prog="modelwright agent run", description="Run a command and record its end.")
    parser.add_argument("--folder", type=Path, required=True, help="where started and result.json are written")
    parser.add_argument("--deadline", type=float, default=0.0, help="seconds after which it is ended (0: none)")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--cwd", type=Path, default=None, help="the directory to run in")
    parser.add_argument("command", nargs="+", help="the command and its arguments")
    options = parser.parse_args(argv)
    try:
        os.close(os.open(options.folder / "started", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        print(f"{options.folder}: the command has been started before and is not run again", file=sys.stderr)
        return 1
    started = datetime.now(UTC)
    outcome = _Command(options.command, options.cwd, options.deadline, options.grace).run()
    _write(options.folder / "result.json", {**outcome, "startedAt": started.isoformat(), "finishedAt": _now()})
    return 0


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _write(path: Path, result: dict[str, object]) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(result), "utf-8")
    fresh.replace(path)


class _Command:
    """The command in a process group of its own, waited for without polling."""

    def __init__(self, command: list[str], cwd: Path | None, deadline: float, grace: float) -> None:
        self._command = command
        self._cwd = cwd
        self._deadline = deadline
        self._grace = grace
        self._ended_for = ""

    def run(self) -> dict[str, object]:
        """How it ended: exitCode, reason and message."""
        with _wakeups() as wait:
            try:
                process = subprocess.Popen(self._command, cwd=self._cwd, stdin=subprocess.DEVNULL, process_group=0)
            except OSError as error:
                return _unstartable(self._command[0], self._cwd, error)
            try:
                self._wait(process, wait)
            finally:
                _signal_group(process.pid, signal.SIGKILL)
                code = process.wait()
        return {"exitCode": code, "reason": self._ended_for, "message": self._message(code)}

    def _wait(self, process: subprocess.Popen[bytes], wait: Callable[[float | None], set[int]]) -> None:
        end = time.monotonic() + self._deadline if self._deadline else None
        while process.poll() is None:
            signals = wait(None if end is None else max(0.0, end - time.monotonic()))
            expired = end is not None and time.monotonic() >= end
            if self._ended_for:
                if expired:
                    return
            elif expired or signals & {signal.SIGTERM, signal.SIGINT}:
                self._ended_for = "DeadlineExceeded" if expired else "Interrupted"
                _signal_group(process.pid, signal.SIGTERM)
                end = time.monotonic() + self._grace

    def _message(self, code: int) -> str:
        if self._ended_for == "DeadlineExceeded":
            return f"it ran longer than its deadline of {self._deadline:g} s and was ended"
        if self._ended_for:
            return "it was ended before it was done"
        if code < 0:
            return f"it was ended by signal {signal.Signals(-code).name}"
        return "" if code == 0 else f"it exited with code {code}"


@contextlib.contextmanager
def _wakeups() -> Iterator[Callable[[float | None], set[int]]]:
    """Wait for signals, a child's end among them, at most so many seconds."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def wait(seconds: float | None) -> set[int]:
        select.select([reader], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            return set(os.read(reader, 4096))
        return set()

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _unstartable(program: str, cwd: Path | None, error: OSError) -> dict[str, object]:
    place = f" in {cwd}" if cwd else ""
    code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    message = f"cannot start {program!r}{place}: {error.strerror or error}"
    return {"exitCode": code, "reason": "CommandNotStarted", "message": message}


if __name__ == "__main__":
    sys.exit(main())
