"""What a command's runner is told: each worker's words and variables, with paths that are real on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads.addresses import HOST
from modelwright.adapters.embedded.workloads.mounts import Layout
from modelwright.adapters.embedded.workloads.process import NONCE, Identity, spawn
from modelwright.adapters.embedded.workloads.replica import expand, references
from modelwright.ports.errors import Invalid, Unavailable
from modelwright.ports.workloads import Command
from modelwright.reconcile import distributed

_LONGEST_WORD = 128 * 1024
"""What Linux takes as one word, or one variable (MAX_ARG_STRLEN)."""
_RUNNER = (sys.executable, "-m", "modelwright.agent.run")


class WorkerPlan(msgspec.Struct, frozen=True):
    """One worker; `env` comes on top of the runner's environment."""

    argv: tuple[str, ...]
    env: dict[str, str]


class RunnerPlan(msgspec.Struct, frozen=True):
    """`command.json` (`agent.run` is the other side); `deadline` (0: none) and `grace` in seconds."""

    workers: tuple[WorkerPlan, ...]
    cwd: str
    deadline: float
    grace: float


def plan(
    command: Command, layout: Layout, ports: Sequence[int], *, work: Path, deadline: float, grace: float
) -> RunnerPlan:
    """Everything is expanded here; `work` is where it runs unless it says otherwise."""
    workers = tuple(_worker(command, layout, index, ports) for index in range(command.workers))
    cwd = layout.real(command.working_dir) if command.working_dir else str(work)
    return RunnerPlan(workers, cwd, deadline, grace)


def start(folder: Path, nonce: str, output: int) -> Identity:
    """Start the runner on the plan in its folder. Raises Unavailable (SystemError)."""
    try:
        return spawn([*_RUNNER, "--folder", str(folder)], env=_environment(nonce), output=output)
    except OSError as error:
        raise Unavailable(f"cannot start a process: {error}", reason="SystemError") from error


def _environment(nonce: str) -> dict[str, str]:
    """What all workers have in common: ours, output that is not held back, and `python` where there is no other."""
    return {"PYTHONUNBUFFERED": "1", **os.environ, "PATH": search_path(), NONCE: nonce}


def search_path() -> str:
    """Where programs are looked for: last of all beside our own Python."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def _worker(command: Command, layout: Layout, index: int, ports: Sequence[int]) -> WorkerPlan:
    """Its own variables, then the command's, each of which may use those before it."""
    addresses = [f"{HOST}:{port}" for port in ports]
    env = distributed.variables(command.framework, str(index), addresses, local=True)
    for name, value in command.env.items():
        env[name] = expanded(layout.reference(value), env)
    return WorkerPlan(tuple(expanded(word, env) for word in (*command.command, *command.args)), env)


def expanded(text: str, values: Mapping[str, str]) -> str:
    """As `expand`, for what a process can be given. Raises Invalid for more: a few variables may refer to gigabytes."""
    length = sum(len(values.get(name, "")) for name in references(text))
    if length > _LONGEST_WORD:
        raise Invalid(
            f"{text[:60]!r} becomes longer than {_LONGEST_WORD} characters once its references are expanded: "
            "give that much to the command in a file",
            reason="CommandTooLong",
        )
    return expand(text, values)
