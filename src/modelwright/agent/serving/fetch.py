"""`modelwright agent fetch`: the models of a serving Pod, before its server starts.

What has arrived stays in the Pod's folder: the next attempt, which the kubelet makes, goes on with it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from pathlib import Path

from modelwright.agent.ending import SERVING_MEMORY, Words, read_variable, run_reported
from modelwright.agent.printing import Printer
from modelwright.agent.serving import layouts
from modelwright.agent.serving.access import Access, advised, bring
from modelwright.agent.serving.choice import choose
from modelwright.agent.serving.keys import key_of
from modelwright.agent.serving.places import Places, places_of
from modelwright.ports.errors import Invalid, Retryable
from modelwright.ports.serving import TASK_VARIABLE, ServeTask
from modelwright.ports.workloads import ServedVersion

PATIENCE_SECONDS = 60.0
"""How long an attempt goes on while nothing arrives."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
WORDS = Words(what="download of the model", more_memory=SERVING_MEMORY)


def main(patience: float = PATIENCE_SECONDS) -> int:
    """The exit code: 0 when all is there, 1 after a report why not. `patience` is in seconds."""
    return run_reported(lambda printer: _run(os.environ, printer, patience), WORDS, advised)


def _run(environment: Mapping[str, str], printer: Printer, patience: float) -> None:
    task, places = read_variable(environment, TASK_VARIABLE, ServeTask), places_of(environment)
    paths = Fetching(task, places, printer, patience).run()
    choice = choose(task, paths, None, "")
    if choice is None:
        raise Invalid(f"the default version {task.default!r} is not among the versions", reason="TaskInvalid")
    layouts.write(task.layout, choice, places)
    printer.say(f"serving {task.model_name} version {choice.default}")


class Fetching:
    """Brings all versions of a task, one after the other. One process at a time may do this for one folder."""

    def __init__(self, task: ServeTask, places: Places, printer: Printer, patience: float) -> None:
        self._task, self._printer, self._patience = task, printer, patience
        self._access = Access(
            pull_secret=str(places.pull_secret),
            download_secret=str(places.download_secret),
            plain_http=task.plain_http,
        )
        self._moved, self._moved_at = (0, 0), 0.0
        self._before = (0, 0)

    def run(self) -> dict[str, str]:
        """The folder of each version. Raises what `bring` raises."""
        return {version.version: self._path(version) for version in self._wanted()}

    def _wanted(self) -> list[ServedVersion]:
        """A server with one folder holds the default alone."""
        task = self._task
        return [one for one in task.versions if task.layout != "plain" or one.version == task.default]

    def _path(self, version: ServedVersion) -> str:
        mounted = self._task.mounted.get(version.version)
        if mounted is not None:
            return mounted
        folder = Path(self._task.folder, key_of(version.source))
        self._bring(version, folder)
        return str(folder / "model")

    def _bring(self, version: ServedVersion, folder: Path) -> None:
        self._moved_at, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            try:
                bring(version.source, folder, self._access, self._report, fetching=lambda: self._say_fetching(version))
            except Retryable as error:
                waited = time.monotonic() - self._moved_at
                if waited > self._patience:
                    raise
                self._printer.say(f"version {version.version}: {error.reason}: {advised(error)}; trying again")
                time.sleep(max(min(error.after or 0.0, _LONGEST_PAUSE), pause * random.uniform(0.5, 1.0)))  # noqa: S311
                pause = _FIRST_PAUSE if waited < pause else min(pause * 2, _LONGEST_PAUSE)
            else:
                break
        self._before, self._moved = (self._before[0] + self._moved[0], self._before[1] + self._moved[1]), (0, 0)
        self._printer.finish()

    def _say_fetching(self, version: ServedVersion) -> None:
        self._printer.say(f"fetching version {version.version} as user {os.geteuid()} and group {os.getegid()}")

    def _report(self, done: int, total: int) -> None:
        """Bytes of all versions so far; a total that is not known is told as none."""
        if done > self._moved[0]:
            self._moved_at = time.monotonic()
        self._moved = (done, total)
        self._printer.progress(self._before[0] + done, self._before[1] + total if total else 0)
