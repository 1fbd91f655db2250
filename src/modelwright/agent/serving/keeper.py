"""Keeping the models of a serving Pod at the edge, and telling the server beside it which to serve.

Everything is looked at again and again, and what matters is on the disk: a keeper that is killed goes on where it was.
What serves goes on serving until what is wanted is verified, loaded and served.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

import msgspec

from modelwright.agent.serving import layouts
from modelwright.agent.serving.access import Access
from modelwright.agent.serving.choice import Choice, choose
from modelwright.agent.serving.folder import ModelsFolder, Served
from modelwright.agent.serving.keys import key_of
from modelwright.agent.serving.places import Places
from modelwright.agent.serving.server import Asker, Seen, read_state
from modelwright.agent.serving.shelf import Held, Shelf
from modelwright.agent.serving.task_file import TaskFile
from modelwright.agent.serving.telling import Teller
from modelwright.agent.serving.timing import Timing
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.serving import KeeperState, ServeTask
from modelwright.ports.workloads import Failure, ModelSource, ServedVersion, VersionStatus


class Keeper:
    """Each `step` looks at the task, the models and the server, does what is to be done, and tells."""

    def __init__(self, places: Places, timing: Timing, teller: Teller) -> None:
        self._places, self._timing, self._teller = places, timing, teller
        self._task_file = TaskFile(places.task)
        self._shelf, self._asker = Shelf(timing), Asker(timing)
        self._folder: ModelsFolder | None = None
        self._taken: ServeTask | None = None
        self._served: Served | None = None
        self._recorded: Served | None = None
        self._choice: Choice | None = None
        self._digest = ""
        self._in_use: set[str] = set()
        """The models that the server may hold: those it was told, until it has left them behind."""
        self._seen = Seen()
        self._loaded: dict[str, ModelSource] = {}
        self._fault: Failure | None = None
        self._settled = False

    def start(self) -> None:
        """A server that starts now must not find what is not verified yet; one that runs goes on. Raises OSError."""
        self._places.config.unlink(missing_ok=True)
        self._places.models_config.unlink(missing_ok=True)

    def run(self) -> None:
        """Until the process ends."""
        while True:
            self.step()
            pause = self._timing.look_settled if self._settled else self._timing.look
            select.select(self._shelf.children(), [], [], pause)

    def step(self) -> None:
        """One look at everything."""
        try:
            self._task_file.read()
            self._fault = self._task_file.fault
            if self._task_file.task is not None:
                self._keep(self._task_file.task)
        except OSError as error:
            self._fault = Failure("SystemError", f"the system refused: {error}", retryable=True)
        except ModelwrightError as error:
            self._fault = Failure(error.reason, error.message, retryable=error.retryable)
        self._tell()

    def stop(self) -> None:
        """End what is under way; what has arrived stays."""
        self._shelf.stop()

    def _keep(self, task: ServeTask) -> None:
        folder = self._open(Path(task.folder))
        if folder is None:
            told = f"another agent still keeps {task.folder}: this one waits for its end"
            self._fault = Failure(reason="ModelsInUse", message=told, retryable=True)
            return
        if task != self._taken:
            self._take(task, folder)
        access = Access(
            pull_secret=str(self._places.pull_secret),
            download_secret=str(self._places.download_secret),
            plain_http=task.plain_http,
            stall_seconds=self._timing.stall,
            durable=True,
        )
        self._shelf.step(access, self._first(task))
        self._look_at_server(task, folder)
        self._tell_server(task)
        self._tidy(task, folder)
        if self._served is not None and self._served != self._recorded:
            folder.remember(self._served)
            self._recorded = self._served

    # What is wanted

    def _open(self, path: Path) -> ModelsFolder | None:
        """The folder, once it is ours."""
        if self._folder is None or self._folder.path != path:
            if self._folder is not None:
                self._folder.unlock()
            self._folder, self._taken = ModelsFolder(path), None
        return self._folder if self._folder.lock() else None

    def _take(self, task: ServeTask, folder: ModelsFolder) -> None:
        """Begin with another task; what the former one was bringing, and this one does not name, is given up."""
        self._recorded = folder.served()
        served = self._served or self._recorded
        self._served = served if served is not None and served.fits(task) else None
        if self._served is not None:
            self._in_use.add(key_of(self._served.version.source))
        self._taken = task
        self._want(task, folder)
        self._shelf.hurry()
        self._teller.say(f"wanted: {task.model_name} {', '.join(one.version for one in _versions(task))}")

    def _want(self, task: ServeTask, folder: ModelsFolder) -> None:
        sources = {key_of(one.source): one.source for one in _versions(task) if one.version not in task.mounted}
        served = [self._served.version.source] if self._served is not None else []
        self._shelf.want(folder.path, sources, {key_of(source): source for source in served})

    def _first(self, task: ServeTask) -> list[str]:
        """The models that are served by default, now and as is wanted."""
        default = [key_of(one.source) for one in task.versions if one.version == task.default]
        return [*default, *([key_of(self._served.version.source)] if self._served else [])]

    # What the server does

    def _look_at_server(self, task: ServeTask, folder: ModelsFolder) -> None:
        before = self._seen
        if task.layout == "modelwright":
            self._seen = read_state(self._places.state, self._digest)
        else:
            self._seen = self._asker.look(task, self._choice, settled=self._settled)
        self._note_loaded()
        self._note_served(task, folder)
        if self._seen.applied and self._choice is not None:
            self._in_use = {key_of(listed.source) for listed in self._choice.versions}
            layouts.forget_links(self._choice, self._places)
        for version in self._seen.failed.keys() - before.failed.keys():
            self._doubt(version)

    def _note_loaded(self) -> None:
        """Which content the server holds under each name.

        What it says of a name is of its former content, if it had one, until it has taken up all that it was told.
        """
        ready = self._seen.ready
        former = {self._served.version.version: self._served.version.source} if self._served is not None else {}
        self._loaded = {name: source for name, source in self._loaded.items() if name in ready}
        for listed in self._choice.versions if self._choice is not None else ():
            before = self._loaded.get(listed.version, former.get(listed.version, listed.source))
            if listed.version in ready and (self._seen.applied or before == listed.source):
                self._loaded[listed.version] = listed.source

    def _note_served(self, task: ServeTask, folder: ModelsFolder) -> None:
        """Remember what answers by default; what did so before need not be kept any more."""
        listed = self._choice.find(self._seen.serving) if self._choice is not None else None
        if listed is None or self._loaded.get(listed.version) != listed.source:
            return
        now = Served(task.model_name, task.framework, ServedVersion(listed.version, listed.number, listed.source))
        if now != self._served:
            self._served = now
            self._teller.say(f"serving version {listed.version}")
            self._want(task, folder)

    def _doubt(self, version: str) -> None:
        """What cannot be loaded may have been changed on the disk."""
        listed = self._choice.find(version) if self._choice is not None else None
        held = self._shelf.held.get(key_of(listed.source)) if listed is not None else None
        if held is not None:
            self._teller.say(f"version {version} cannot be loaded: its files are verified again")
            held.doubt()

    # What the server is told

    def _tell_server(self, task: ServeTask) -> None:
        here = {one.version: path for one in _versions(task) if (path := self._path(task, one))}
        served = self._served.version if self._served is not None else None
        choice = choose(task, here, served, self._path(task, served) if served is not None else "")
        if choice is None:
            return
        if choice == self._choice and not self._anew(choice) and self._told(task):
            return
        self._in_use |= {key_of(listed.source) for listed in choice.versions}
        self._digest = layouts.write(task.layout, choice, self._places)
        self._choice, self._seen = choice, msgspec.structs.replace(self._seen, applied=False)

    def _path(self, task: ServeTask, version: ServedVersion) -> str:
        """The folder of a version that is here, verified; else empty."""
        mounted = task.mounted.get(version.version, "")
        held = self._shelf.held.get(key_of(version.source))
        return mounted or (held.path if held is not None and held.here else "")

    def _anew(self, choice: Choice) -> bool:
        """Whether a model was brought anew to where the server was told that it is: it must load it again."""
        brought = [held for listed in choice.versions if (held := self._shelf.held.get(key_of(listed.source)))]
        anew = any(held.fetched for held in brought)
        for held in brought:
            held.fetched = False
        return anew

    def _told(self, task: ServeTask) -> bool:
        """Whether what the server was told is still there."""
        places = {"modelwright": self._places.config, "tensorflow": self._places.models_config}
        return os.path.lexists(places.get(task.layout, self._places.plain))

    # What is not wanted any more

    def _tidy(self, task: ServeTask, folder: ModelsFolder) -> None:
        wanted = {key_of(one.source) for one in _versions(task) if one.version not in task.mounted}
        for name in folder.others(wanted | self._in_use):
            folder.remove(name)
            self._teller.say(f"removed {name}")
        left = folder.others(wanted)
        self._settled = (
            not left
            and self._fault is None
            and self._seen.applied
            and self._seen.serving == task.default
            and self._seen.failure is None
            and not self._shelf.children()
            and all(status.phase == "Ready" for status in self._statuses(task))
        )

    # What is said

    def _statuses(self, task: ServeTask) -> tuple[VersionStatus, ...]:
        return tuple(self._status(task, version) for version in _versions(task))

    def _status(self, task: ServeTask, version: ServedVersion) -> VersionStatus:
        name, held = version.version, self._shelf.held.get(key_of(version.source))
        if not self._path(task, version):
            return _coming(name, held)
        if name in self._seen.failed:
            return VersionStatus(version=name, phase="Failed", failure=self._seen.failed[name])
        ready = self._loaded.get(name) == version.source
        return VersionStatus(version=name, phase="Ready" if ready else "Loading")

    def _tell(self) -> None:
        task = self._task_file.task
        self._settled = self._settled and self._fault is None
        self._teller.tell(
            KeeperState(
                task=self._task_file.digest,
                serving=self._seen.serving,
                settled=self._settled,
                versions=self._statuses(task) if task is not None else (),
                failure=self._fault or self._seen.failure,
            )
        )


def _versions(task: ServeTask) -> tuple[ServedVersion, ...]:
    """The versions to bring: a server with one folder holds the default alone."""
    return tuple(one for one in task.versions if task.layout != "plain" or one.version == task.default)


def _coming(name: str, held: Held | None) -> VersionStatus:
    if held is None or (held.failure is None and held.progress is None and not held.fetched):
        return VersionStatus(version=name, phase="Pending")
    if held.failure is not None:
        return VersionStatus(version=name, phase="Failed", failure=held.failure)
    return VersionStatus(version=name, phase="Fetching", progress=held.progress)
