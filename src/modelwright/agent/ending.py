"""However work in a container ends, its termination message says so.

Nothing heavy is imported before a SIGTERM would be answered.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from modelwright.agent.printing import Printer
from modelwright.agent.termination import Termination, fit
from modelwright.ports.errors import Invalid, ModelwrightError
from modelwright.ports.job import TERMINATION_FILE, Report
from modelwright.ports.workloads import BuildResult, Failure

TERMINATION_VARIABLE = "MODELWRIGHT_TERMINATION_FILE"
"""Another file for the report than Kubernetes' own, for runs outside of it."""

Task = TypeVar("Task")
Body = Callable[[Printer], BuildResult | None]
"""Does the work. None: there is nothing to report."""
Advise = Callable[[ModelwrightError], str]
"""The message of an error, with what mends it."""

SERVING_MEMORY = "an admin raises the Helm value serving.agentResources"
"""What gives the agent more memory in whatever Pod of serving."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """How a kind of work is called, and which setting gives it more memory."""

    what: str
    more_memory: str


def read_variable(environment: Mapping[str, str], name: str, kind: type[Task]) -> Task:
    """The task that a variable holds. Raises Invalid (TaskInvalid)."""
    try:
        return msgspec.json.decode(environment.get(name, ""), type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Invalid(
            f"the variable {name} holds no task that this program knows: operator and agent image must be of "
            "the same version",
            reason="TaskInvalid",
        ) from error


def run_reported(body: Body, words: Words, advise: Advise) -> int:
    """Do the work, and report how it ended, whatever happens. The exit code: 0 or 1."""
    printer = Printer()
    reporter = _Reporter(printer, words)
    reporter.end_on_sigterm()
    try:
        result = body(printer)
    except MemoryError:
        return reporter.out_of_memory()
    except BaseException as error:
        return reporter.failed(_failure(error, words, advise))
    return reporter.reported(fit(Report(result=result)), 0) if result is not None else 0


class _Reporter:
    """Writes the one report; its texts are ready before they are needed."""

    def __init__(self, printer: Printer, words: Words) -> None:
        self._printer = printer
        self._file = Termination(Path(os.environ.get(TERMINATION_VARIABLE) or TERMINATION_FILE))
        self._interrupted = interrupted(words)
        self._no_memory = fit(Report(failure=no_memory(words)))
        self._what = words.what

    def failed(self, failure: Failure) -> int:
        self._printer.say(f"failed: {failure.reason}: {failure.message}")
        return self.reported(fit(Report(failure=failure)), 1)

    def out_of_memory(self) -> int:
        return self.reported(self._no_memory, 1)

    def reported(self, report: bytes, code: int) -> int:
        """The exit code, once the report is where it belongs."""
        try:
            written = self._file.write_bytes(report)
        except OSError as error:
            self._printer.say(f"failed: how the {self._what} ended cannot be written down: {error}")
            return 1
        return code if written else 1

    def end_on_sigterm(self) -> None:
        """Report and end at once, however busy the main thread is: what was begun, the next attempt finds."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait_for_sigterm, name="sigterm", daemon=True).start()

    def _wait_for_sigterm(self) -> None:
        signal.sigwait({signal.SIGTERM})
        try:
            first = self._file.write(Report(failure=self._interrupted))
        except OSError:
            first = True
        if first:
            self._printer.say(f"failed: {self._interrupted.reason}: {self._interrupted.message}")
            os._exit(1)


def interrupted(words: Words) -> Failure:
    """It was told to end."""
    told = f"the {words.what} was told to end (SIGTERM) before it was done"
    return Failure(reason="Interrupted", message=told, retryable=True)


def no_memory(words: Words) -> Failure:
    """It had too little memory."""
    told = f"the {words.what} had not enough memory: {words.more_memory}"
    return Failure(reason="OOMKilled", message=told, retryable=True)


def _failure(error: BaseException, words: Words, advise: Advise) -> Failure:
    if isinstance(error, KeyboardInterrupt):
        return interrupted(words)
    return failure_of(error, words, advise)


def failure_of(error: BaseException, words: Words, advise: Advise) -> Failure:
    """What the error means. Of an unexpected one, only the type and the place are told: its text may hold a secret."""
    if isinstance(error, ModelwrightError):
        return Failure(error.reason, advise(error), retryable=error.retryable)
    if isinstance(error, MemoryError):
        return no_memory(words)
    if isinstance(error, OSError):
        return Failure("SystemError", f"the system refused: {error}", retryable=True)
    print("".join(traceback.format_tb(error.__traceback__)), type(error).__name__, file=sys.stderr, flush=True)
    told = (
        f"an error that nobody expected ({type(error).__name__}): the log of the {words.what} says where; "
        "please report it"
    )
    return Failure("InternalError", told, retryable=True)
