"""A task in a Job: what to do comes by a variable, how it ended goes out by the termination message.

`ports.job` says what both hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from modelwright.agent.ending import Words, read_variable, run_reported
from modelwright.agent.printing import Printer
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.job import SHARED_FOLDER, TASK_VARIABLE, BuildTask
from modelwright.ports.workloads import BuildResult

SHARED_VARIABLE = "MODELWRIGHT_SHARED_FOLDER"
"""Another SHARED_FOLDER, for runs outside of Kubernetes."""

Work = Callable[[BuildTask, Printer], BuildResult | None]
"""Does the task. None: it was one step of several, and there is nothing to report yet."""

BUILD = Words(what="build", more_memory="raise the memory limit of build containers")


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
    return read_variable(environment, TASK_VARIABLE, BuildTask)


def run(work: Work) -> int:
    """Do the work of this process's task, and report how it ended, whatever happens. The exit code: 0 or 1."""
    task: BuildTask | None = None

    def body(printer: Printer) -> BuildResult | None:
        nonlocal task
        task = read_task(os.environ)
        return work(task, printer)

    def advise(error: ModelwrightError) -> str:
        from modelwright.agent.advice import advised

        return advised(error, task) if task else error.message

    return run_reported(body, BUILD, advise)


def _shared_folder() -> Path:
    return Path(os.environ.get(SHARED_VARIABLE) or SHARED_FOLDER)
