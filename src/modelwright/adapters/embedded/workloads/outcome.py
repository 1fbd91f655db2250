"""What has become of the workers of a command, from what their runner writes down (`agent.run` is the other side)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads import launch, logs
from modelwright.ports.workloads import Failure, TaskStatus, WorkerCounts

INTERRUPTED = Failure(
    reason="Interrupted", message="it was ended before it was done, and is not run again by itself", retryable=True
)
_WORKER = re.compile(r"worker-[0-9]+(?= )")
_NO_MODULE = re.compile(r"^(ModuleNotFoundError|ImportError): ", re.MULTILINE)


class WorkerState(msgspec.Struct, frozen=True, rename="camel"):
    """One worker; `pid` is 0 before it has started."""

    pid: int
    exit_code: int | None = None
    finished_at: datetime | None = None


class RunState(msgspec.Struct, frozen=True, rename="camel"):
    """`workers.json`: when the workers started, and how each is."""

    started_at: datetime
    workers: tuple[WorkerState, ...]


class Result(RunState, frozen=True, rename="camel", kw_only=True):
    """`result.json`: how they ended."""

    exit_code: int
    finished_at: datetime
    reason: str = ""
    message: str = ""


def counts(workers: Sequence[WorkerState], *, over: bool = False) -> WorkerCounts:
    """How many are in which state; once all is `over`, those of which no end is known have failed."""
    codes = [worker.exit_code for worker in workers]
    unknown = codes.count(None)
    succeeded = codes.count(0)
    failed = len(codes) - succeeded - unknown
    return WorkerCounts(0 if over else unknown, succeeded, failed + (unknown if over else 0))


def outcome(status: TaskStatus, folder: Path, killed_for: Failure | None, *, crashed: bool = False) -> TaskStatus:
    """The last status, after all processes have ended; `killed_for` is why we have ended them.

    `crashed`: the runner itself has failed, which another one may do as well.
    """
    try:
        result = msgspec.json.decode((folder / "result.json").read_bytes(), type=Result)
    except (FileNotFoundError, msgspec.MsgspecError):
        return _without_result(status, folder, killed_for or (_crashed(folder) if crashed else INTERRUPTED))
    ended = msgspec.structs.replace(
        status,
        phase="Succeeded",
        started_at=result.started_at,
        finished_at=result.finished_at,
        exit_code=result.exit_code,
        workers=counts(result.workers, over=True),
        progress=None,
        failure=None,
    )
    failure = _why(result, folder)
    if failure is None:
        return ended
    return msgspec.structs.replace(ended, phase="Failed", failure=killed_for or failure)


def _without_result(status: TaskStatus, folder: Path, failure: Failure) -> TaskStatus:
    """The runner was ended before it could say how the workers had."""
    try:
        state = msgspec.json.decode((folder / "workers.json").read_bytes(), type=RunState)
    except (FileNotFoundError, msgspec.MsgspecError):
        known = status
    else:
        known = msgspec.structs.replace(status, started_at=state.started_at, workers=counts(state.workers, over=True))
    return msgspec.structs.replace(known, phase="Failed", failure=failure, progress=None, finished_at=datetime.now(UTC))


def _crashed(folder: Path) -> Failure:
    message = f"the runner of the command failed; last lines: {logs.last_lines(folder / 'log')}"
    return Failure(reason="SupervisionFailed", message=message, retryable=True)


def _why(result: Result, folder: Path) -> Failure | None:
    if result.exit_code == 0 and not result.reason:
        return None
    if result.reason == "Interrupted":
        return INTERRUPTED
    lines = _last_lines(folder / "log", result.message)
    message = f"{result.message}; last lines: {lines}{_which_python(folder, lines)}" if lines else result.message
    return Failure(reason=result.reason or "CommandFailed", message=message, retryable=result.reason == "")


def _last_lines(log: Path, message: str) -> str:
    """Those of the worker that the message names, if it does: the others only said that they were ended."""
    named = _WORKER.match(message)
    return (logs.last_lines_of(log, named[0]) if named is not None else "") or logs.last_lines(log)


class _Words(msgspec.Struct):
    argv: tuple[str, ...]
    env: dict[str, str]


class _Started(msgspec.Struct):
    """What is of interest in `command.json` (`launch` writes it)."""

    workers: tuple[_Words, ...]


def _which_python(folder: Path, lines: str) -> str:
    """For who has modules in one environment and runs the Python of another: which one that was."""
    if not _NO_MODULE.search(lines):
        return ""
    try:
        worker = msgspec.json.decode((folder / "command.json").read_bytes(), type=_Started).workers[0]
    except (OSError, msgspec.MsgspecError, IndexError):
        return ""
    word = worker.argv[0]
    found = shutil.which(word, path=worker.env.get("PATH", launch.search_path()))
    if "/" in word or found is None:
        return ""
    return (
        f"\n({word} is {found} here: give the path of a Python that has this module, "
        "or start `modelwright up` with its environment active)"
    )
