"""The agent of a build Pod, run as a process of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from modelwright.agent.ending import TERMINATION_VARIABLE
from modelwright.ports.job import TASK_VARIABLE


@dataclass
class Build:
    """A build that has begun; `exit_code` is None until it ends, and -9 if its Pod was taken away."""

    owner_uid: str
    pod: str
    exit_code: int | None = None


@dataclass(frozen=True)
class Ended:
    """What a kubelet would say of the container."""

    exit_code: int
    message: str


async def run_build(
    build: Build, command: list[str], variables: dict[str, str], mounts: dict[str, Path], home: Path
) -> Ended:
    """Run the Pod's command to its end. Cancelled, it kills the process and sees it gone.

    `home` is the Pod's own folder. In the task, a path where the Pod mounts something is replaced by what is mounted.
    """
    message = home / "termination-log"
    variables = {name: expand(value) for name, value in variables.items()}
    task = json.loads(variables[TASK_VARIABLE])
    task = {**task, **{key: str(mounts.get(task[key], task[key])) for key in ("folder", "secret") if key in task}}
    # A process that dies of a signal says where in its log.
    own = {
        "PYTHONFAULTHANDLER": "1",
        TASK_VARIABLE: json.dumps(task),
        TERMINATION_VARIABLE: str(message),
        "HOME": str(home),
        "TMPDIR": str(home),
    }
    program = [sys.executable, "-m", *command]
    with (home / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *program, env={**os.environ, **variables, **own}, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        build.exit_code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            build.exit_code = await process.wait()
    return Ended(build.exit_code, _read(message))


def expand(value: str) -> str:
    """What a container sees of a value that refers to no other variable: two dollars are one, wherever they stand.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
    """
    return re.sub(r"\$(.)", lambda found: "$" if found[1] == "$" else found[0], value, flags=re.DOTALL)


def _read(message: Path) -> str:
    """Empty where nothing was written, as Kubernetes has it."""
    return message.read_text() if message.exists() else ""
