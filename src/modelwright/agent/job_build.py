"""A native build in a Job."""

from __future__ import annotations

import os
from pathlib import Path

from modelwright.agent.advice import described
from modelwright.agent.build import pack
from modelwright.agent.printing import Printer
from modelwright.agent.registries import registries_of
from modelwright.ports.errors import Invalid
from modelwright.ports.job import BuildTask
from modelwright.ports.workloads import BuildResult


def run(task: BuildTask, printer: Printer) -> BuildResult:
    """Pack the task's folder and push it. Raises what `agent.build.pack` raises, and Forbidden (SecretNotFound)."""
    registries, folder = registries_of(task), model_folder(task)
    printer.say(
        f"packing {described(task.action.source)} for {task.action.repository} "
        f"as user {os.geteuid()} and group {os.getegid()}"
    )
    built = pack(task.action, folder, registries.open, printer.progress)
    printer.finish()
    if built.note:
        printer.say(f"note: {built.note}")
    say_pushed(printer, built.result)
    return built.result


def model_folder(task: BuildTask) -> Path:
    """The folder with the model. Raises Invalid (StorageNotFolder) for a file, which a cluster does not mount."""
    folder = Path(task.folder)
    if folder.is_file():
        raise Invalid(
            f"{described(task.action.source)} is a single file: on a cluster the storage names a folder, "
            "so name the one that the file is in",
            reason="StorageNotFolder",
        )
    return folder


def say_pushed(printer: Printer, result: BuildResult) -> None:
    """Tell people what has been pushed."""
    printer.say(f"pushed {result.resolved} as {result.tag}: {result.files} files, {result.size_bytes} bytes")
