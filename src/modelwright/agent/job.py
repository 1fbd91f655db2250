"""A task in a Job: what to do comes by a variable, how it ended goes out by the termination message.

`ports.job` says what both hold. Nothing heavy is imported before a SIGTERM would be answered.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from modelwright.agent.printing import Printer
from modelwright.agent.termination import Termination, fit
from modelwright.ports.errors import Invalid, ModelwrightError
from modelwright.ports.job import SHARED_FOLDER, TASK_VARIABLE, TERMINATION_FILE, BuildTask, Report
from modelwright.ports.workloads import BuildResult, Failure

TERMINATION_VARIABLE = "MODELWRIGHT_TERMINATION_FILE"
"""Another file for the report than Kubernetes' own, for runs outside of it."""
SHARED_VARIABLE = "MODELWRIGHT_SHARED_FOLDER"
"""Another SHARED_FOLDER, likewise."""

Work = Callable[[BuildTask, Printer], BuildResult | None]
"""Does the task. None: it was one step of several, and there is nothing to report yet."""

INTERRUPTED = Failure(
    reason="Interrupted", message="the build was told to end (SIGTERM) before it was done", retryable=True
)
NO_MEMORY = Failure(
    reason="OOMKilled",
    message="the build had not enough memory: raise the memory limit of build containers",
    retryable=True,
)
_NO_MEMORY_REPORT = fit(Report(failure=NO_MEMORY))


def build() -> int:
    """Pack and push an image, natively. The exit code: 0 or 1."""

    def work(task: BuildTask, printer: Printer) -> BuildResult:
        from modelwright.agent.job_build import run

        return run(task, printer)

    return run(work)


def kaniko_prepare() -> int:
    """Check and write down what Kaniko needs. The exit code: 0 or 1; a report is written only of a failure."""

    def work(task: BuildTask, printer: Printer) -> None:
        from modelwright.agent.kaniko import prepare

        prepare(task, _shared_folder(), printer)

    return run(work)


def kaniko_finish() -> int:
    """Check and report what Kaniko has pushed. The exit code: 0 or 1."""

    def work(task: BuildTask, printer: Printer) -> BuildResult:
        from modelwright.agent.kaniko import finish

        return finish(task, _shared_folder(), printer)

    return run(work)


def read_task(environment: Mapping[str, str]) -> BuildTask:
    """The task that the variable holds. Raises Invalid (TaskInvalid)."""
    text = environment.get(TASK_VARIABLE, "")
    try:
        return msgspec.json.decode(text, type=BuildTask)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(
            f"the variable {TASK_VARIABLE} holds no task that this program knows: operator and agent image must be of "
            "the same version",
            reason="TaskInvalid",
        ) from error


def run(work: Work) -> int:
    """Do the work of this process's task, and report how it ended, whatever happens. The exit code: 0 or 1."""
    printer = Printer()
    termination = Termination(Path(os.environ.get(TERMINATION_VARIABLE) or TERMINATION_FILE))
    _end_on_sigterm(termination, printer)
    task: BuildTask | None = None
    try:
        task = read_task(os.environ)
        result = work(task, printer)
    except MemoryError:
        return _reported(termination, printer, _NO_MEMORY_REPORT, 1)
    except BaseException as error:
        return _failed(termination, printer, _failure(error, task))
    if result is None:
        return 0
    return _reported(termination, printer, fit(Report(result=result)), 0)


def _failed(termination: Termination, printer: Printer, failure: Failure) -> int:
    printer.say(f"failed: {failure.reason}: {failure.message}")
    return _reported(termination, printer, fit(Report(failure=failure)), 1)


def _reported(termination: Termination, printer: Printer, report: bytes, code: int) -> int:
    """The exit code, once the report is where it belongs."""
    try:
        written = termination.write_bytes(report)
    except OSError as error:
        printer.say(f"failed: how the build ended cannot be written down: {error}")
        return 1
    return code if written else 1


def _failure(error: BaseException, task: BuildTask | None) -> Failure:
    """What the error means. Of an unexpected one, only the type and the place are told: its text may hold a secret."""
    if isinstance(error, ModelwrightError):
        from modelwright.agent.advice import advised

        return Failure(error.reason, advised(error, task) if task else error.message, retryable=error.retryable)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OSError):
        return Failure("SystemError", f"the system refused: {error}", retryable=True)
    print("".join(traceback.format_tb(error.__traceback__)), type(error).__name__, file=sys.stderr, flush=True)
    told = f"an error that nobody expected ({type(error).__name__}): the log of the build says where; please report it"
    return Failure("InternalError", told, retryable=True)


def _end_on_sigterm(termination: Termination, printer: Printer) -> None:
    """Report and end at once, however busy the main thread is: what was begun, the next attempt finds."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def wait() -> None:
        signal.sigwait({signal.SIGTERM})
        try:
            first = termination.write(Report(failure=INTERRUPTED))
        except OSError:
            first = True
        if first:
            printer.say(f"failed: {INTERRUPTED.reason}: {INTERRUPTED.message}")
            os._exit(1)

    threading.Thread(target=wait, name="sigterm", daemon=True).start()


def _shared_folder() -> Path:
    return Path(os.environ.get(SHARED_VARIABLE) or SHARED_FOLDER)
