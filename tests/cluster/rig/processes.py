"""The long-running programs of a cluster: started, stopped and started again by name."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from tests.cluster.rig import cgroups, state, waiting

LAUNCH = Path(__file__).with_name("launch.sh")


class StartError(Exception):
    """A part of the cluster ended, or was not ready in time; the message has the end of its log."""


class Program(msgspec.Struct, frozen=True):
    """A program that was started: its process id, and with what it is started again."""

    pid: int
    argv: tuple[str, ...]


def start(cluster: str, name: str, argv: Sequence[str | Path]) -> int:
    """Start a program in the background; its process id. Its output goes to logs/NAME.log."""
    command = tuple(str(argument) for argument in argv)
    file, log = _file(cluster, name), log_file(cluster, name)
    for folder in (file.parent, log.parent):
        folder.mkdir(exist_ok=True)
    launch: list[str | Path] = ["sh", LAUNCH, cgroups.entry(cluster), log, *command]
    launched = subprocess.run(launch, check=True, stdout=subprocess.PIPE, text=True)
    program = Program(pid=int(launched.stdout), argv=command)
    file.write_bytes(msgspec.json.encode(program))
    return program.pid


def stop(cluster: str, name: str, *, kill: bool = False) -> None:
    """Stop a program and wait until it has ended; one that does not end when asked to is killed."""
    if not kill and is_running(cluster, name):
        os.kill(pid_of(cluster, name), signal.SIGTERM)
        try:
            waiting.until(lambda: not is_running(cluster, name), f"{name} to end", 20)
        except TimeoutError:
            pass
    if is_running(cluster, name):
        os.kill(pid_of(cluster, name), signal.SIGKILL)
    waiting.until(lambda: not is_running(cluster, name), f"{name} to end")


def restart(cluster: str, name: str) -> int:
    """Start a program that has ended once more, with the same arguments. Raises ValueError if it has not ended."""
    if is_running(cluster, name):
        raise ValueError(f"{name} of cluster {cluster} is running: stop it first")
    return start(cluster, name, _read(cluster, name).argv)


def pid_of(cluster: str, name: str) -> int:
    return _read(cluster, name).pid


def started(cluster: str) -> list[str]:
    """The names of all programs that were started."""
    return sorted(file.stem for file in (state.folder(cluster) / "programs").glob("*.json"))


def is_running(cluster: str, name: str) -> bool:
    """True while the process lives and is the cluster's own: its id may be somebody else's by now."""
    return pid_of(cluster, name) in cgroups.processes(cluster)


def wait(cluster: str, name: str, ready: Callable[[], bool], deadline_seconds: float = 120.0) -> None:
    """Wait until a program is ready. Raises StartError if it ends before, or is not in time."""
    deadline = time.monotonic() + deadline_seconds
    while not ready():
        if not is_running(cluster, name):
            raise StartError(f"{name} ended:\n{log_tail(cluster, name)}")
        if time.monotonic() > deadline:
            raise StartError(f"{name} was not ready in {deadline_seconds:.0f} s:\n{log_tail(cluster, name)}")
        time.sleep(0.05)


def log_file(cluster: str, name: str) -> Path:
    return state.folder(cluster) / "logs" / f"{name}.log"


def log_tail(cluster: str, name: str, lines: int = 30) -> str:
    return "\n".join(log_file(cluster, name).read_text(errors="replace").splitlines()[-lines:])


def _file(cluster: str, name: str) -> Path:
    return state.folder(cluster) / "programs" / f"{name}.json"


def _read(cluster: str, name: str) -> Program:
    return msgspec.json.decode(_file(cluster, name).read_bytes(), type=Program)
