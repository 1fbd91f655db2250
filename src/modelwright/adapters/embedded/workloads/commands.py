"""Running a command to its end under a small process of its own (`modelwright agent run`) that outlives us."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from modelwright.adapters.embedded.workloads import amounts, launch, logs, mounts, seals
from modelwright.adapters.embedded.workloads.cache import Held, key_of
from modelwright.adapters.embedded.workloads.fetching import fetch
from modelwright.adapters.embedded.workloads.limits import WorkerLimits
from modelwright.adapters.embedded.workloads.outcome import RunState, counts, outcome
from modelwright.adapters.embedded.workloads.process import Identity, Process, identify, is_alive, new_nonce, sweep
from modelwright.adapters.embedded.workloads.progress import ProgressFile
from modelwright.adapters.embedded.workloads.records import TaskRecord, write_atomically
from modelwright.adapters.embedded.workloads.site import Site
from modelwright.adapters.embedded.workloads.state import StateFile
from modelwright.adapters.embedded.workloads.task import TaskSupervisor
from modelwright.adapters.embedded.workloads.writers import written
from modelwright.ports.errors import Invalid, Terminal, Unavailable
from modelwright.ports.workloads import Command, Download, Failure, ModelSource, Progress, Task, TaskStatus

T = TypeVar("T")

_MOST_WORKERS = 256
_CLEARING_SECONDS = 10.0
_CLEARING_POLL = 0.02


def check(task: Task, command: Command) -> None:
    """Raises Terminal for what cannot run here, Invalid for values that are wrong."""
    if command.image:
        raise Terminal(
            f"{task.name} needs the container image {command.image}, and there are no containers on this machine: "
            "leave image empty to run the command itself, or use the Kubernetes mode",
            reason="NeedsContainers",
        )
    if not command.command:
        raise Invalid(f"{task.name}: there is no command, and no image that brings one")
    if not 1 <= command.workers <= _MOST_WORKERS:
        raise Invalid(f"{task.name}: workers must be at least 1 and at most {_MOST_WORKERS}")
    if ".." in PurePosixPath(command.progress_file).parts:
        raise Invalid(f"{task.name}: the progress file {command.progress_file!r} is not a path without '..'")
    mounts.check(command.mounts)
    amounts.memory_limit(task.resources)


class CommandSupervisor(TaskSupervisor):
    """A command. It goes on when we are killed; what it came to is found by its files."""

    def __init__(self, site: Site, record: TaskRecord, command: Command) -> None:
        super().__init__(site, record)
        self._command = command
        self._process: Process | None = None
        self._exited = asyncio.Event()
        self._stopping = False
        self._workers = StateFile(self.folder / "workers.json", RunState)
        self._steps: ProgressFile | None = None
        self._limits = WorkerLimits(site.sampler, amounts.memory_limit(record.task.resources), self._over_limit)
        self._letting_go: asyncio.TimerHandle | None = None

    @property
    def _namespace(self) -> str:
        return self.record.task.owner.namespace

    @property
    def _key(self) -> tuple[str, str]:
        return self.record.task.owner.uid, self.record.task.name

    @property
    def _writer(self) -> str:
        owner = self.record.task.owner
        return f"{owner.kind} {owner.namespace}/{owner.name}"

    def model_keys(self) -> set[str]:
        """What it needs until it has ended, and for a while if it failed: it may be tried again."""
        if self.ended and self._keeps_for() <= 0:
            return set()
        return {key_of(source, self._namespace) for source in mounts.sources(self._command.mounts)}

    def start(self) -> None:
        super().start()
        if self.ended:
            self._after()

    async def stop(self) -> None:
        self._stopping = True
        if self._process is None or self.ended:  # it has not begun, and the next program begins it; or all is done
            await self._cancel()
        else:
            self._process.signal(signal.SIGTERM)
            await self._until_told()

    def release(self) -> None:
        for handle in (self._task, self._letting_go):
            if handle is not None:
                handle.cancel()
        self._limits.release()
        if self._process is not None:
            self._process.close()

    # Running --------------------------------------------------------------------------------------------------------

    async def _run(self) -> TaskStatus:
        identity = self._find()
        try:
            if identity is None and not (self.folder / "started").exists():
                identity = await self._begin()
            else:  # a former program has begun it, and waited for its turn
                self._site.writers.hold(self._key, self._writer, written(self._command.mounts))
            self._site.ports.hold(self.record.ports)
            if identity is not None:
                await self._wait(identity)
            await self._clear(identity)
            self._look()
        finally:
            self._limits.release()
            self._site.ports.give_back(self.record.ports)
            self._site.writers.release(self._key)
        await self._doubt_what_it_read()
        code = self._process.exit_code if self._process is not None else None
        crashed = code is not None and code > 0 and not self._stopping
        return outcome(self.status, self.folder, self.record.killed, crashed=crashed)

    def _find(self) -> Identity | None:
        """The process of a former run of this program."""
        identity = self.record.process
        if identity is None and self.record.nonce in self._site.found:
            identity = identify(self._site.found[self.record.nonce])
        return identity if identity is not None and is_alive(identity) else None

    async def _begin(self) -> Identity:
        """Have everything at hand and start it. Raises what fetching and mounting raise, and Unavailable."""
        try:
            if self.record.begun is None:  # the deadline counts from here, whoever goes on with it
                self.record.begun = datetime.now(UTC)
                self._site.run.write(self.record)
            held = await self._in_time(self._fetch(), "its models and datasets were not here")
            await self._in_time(self._alone(), "what it writes to was still in use")
            seen = [(key_of(source, self._namespace), model.path) for source, model in held.items()]
            self.record.seals = {key: await asyncio.to_thread(seals.look, path) for key, path in seen}
            return self._spawn(held)
        except OSError as error:
            message = f"{self.record.task.name} cannot be prepared in {self.folder}: {error}"
            raise Unavailable(message, reason="DiskError") from error

    async def _fetch(self) -> dict[ModelSource, Held]:
        sources = mounts.sources(self._command.mounts)
        held = await fetch(self._site.models, sources, self._namespace, self._waiting)
        self.record.downloads = {
            mount.path: held[mount.volume].digest
            for mount in self._command.mounts
            if isinstance(mount.volume, Download)
        }
        self._tell(msgspec.structs.replace(self.status, progress=None, failure=None, downloads=self.record.downloads))
        return held

    async def _alone(self) -> None:
        """Wait until nobody else writes where this does, such as a former training that is slow to end."""

        def waiting(others: str) -> None:
            self._waiting(None, Failure(reason="StorageInUse", message=others, retryable=True))

        await self._site.writers.alone(self._key, self._writer, written(self._command.mounts), waiting)
        self._waiting(None, None)

    async def _in_time(self, work: Coroutine[Any, Any, T], late: str) -> T:
        """Raises Terminal (DeadlineExceeded)."""
        try:
            async with asyncio.timeout(self._seconds_left() or None):
                return await work
        except TimeoutError:
            last = f"; the last time: {self.status.failure.message}" if self.status.failure else ""
            raise Terminal(f"{late} at its deadline{last}", reason="DeadlineExceeded") from None

    def _waiting(self, progress: Progress | None, failure: Failure | None) -> None:
        self._tell(msgspec.structs.replace(self.status, progress=progress, failure=failure))

    def _seconds_left(self) -> float:
        """Until the deadline; 0 for none."""
        seconds, begun = self.record.task.deadline_seconds, self.record.begun
        if not seconds or begun is None:
            return 0.0
        return max(0.001, (begun + timedelta(seconds=seconds) - datetime.now(UTC)).total_seconds())

    def _spawn(self, held: dict[ModelSource, Held]) -> Identity:
        record, command, work = self.record, self._command, self.folder / "work"
        models = {source: model.path for source, model in held.items()}
        layout = mounts.Layout(command.mounts, self.folder / "root", models, self._site.data_dir)
        layout.make()
        work.mkdir(exist_ok=True)
        record.ports = self._site.ports.take(command.workers)
        plan = launch.plan(
            command, layout, record.ports, work=work, deadline=self._seconds_left(), grace=self._site.timing.task_grace
        )
        write_atomically(self.folder / "command.json", msgspec.json.encode(plan))
        within = layout.within(command.progress_file) if command.progress_file else None
        record.progress = (str(within[0]), str(within[1])) if within is not None else None
        record.nonce = record.nonce or new_nonce(self._site.run.domain)
        self._site.run.write(record)
        output = logs.open_log(self.folder / "log")
        try:
            record.process = launch.start(self.folder, record.nonce, output)
        finally:
            os.close(output)
        self._write()  # if not, it is found by its nonce
        return record.process

    async def _wait(self, identity: Identity) -> None:
        self._process = process = Process(identity, self.record.nonce, self._exited.set)
        self._limits.session = identity.pid
        if self._stopping:
            process.signal(signal.SIGTERM)
        try:
            await self._watch(process)
        except Exception:
            process.kill_all()  # what is not supervised does not run
            raise

    async def _watch(self, process: Process) -> None:
        timing, end = self._site.timing, None
        while not self._exited.is_set():
            self._look()
            logs.rotate(self.folder / "log")
            if self._stopping:
                end = end or time.monotonic() + timing.task_grace + 5.0
                if time.monotonic() > end:
                    process.kill_all()
            try:
                async with asyncio.timeout(timing.task_poll if self._workers.state else timing.busy_poll):
                    await self._exited.wait()
            except TimeoutError:
                continue

    def _look(self) -> None:
        """See how its workers are and what it says of its progress."""
        news = self._workers.look()
        state = self._workers.state
        if state is None:
            return
        if news:
            self._limits.watch(state.workers)
        progress = self._progress_file()
        if progress is not None:
            progress.look()
        self._tell(
            msgspec.structs.replace(
                self.status,
                phase="Running",
                started_at=state.started_at,
                workers=counts(state.workers),
                steps=progress.steps if progress is not None and progress.steps else self.status.steps,
            )
        )

    def _progress_file(self) -> ProgressFile | None:
        """What was written before this attempt was started does not count."""
        if self._steps is None and self.record.progress is not None:
            folder, path = self.record.progress
            since = (self.folder / "started").stat().st_mtime_ns
            self._steps = ProgressFile(Path(folder), PurePosixPath(path), since)
        return self._steps

    def _over_limit(self, failure: Failure) -> None:
        self.record.killed = failure
        self._write()

    # Afterwards -----------------------------------------------------------------------------------------------------

    async def _clear(self, identity: Identity | None) -> None:
        """Wait until nothing of it runs any more: only then may it be said to have ended."""
        end = time.monotonic() + _CLEARING_SECONDS
        while sweep(identity or self.record.process, self.record.nonce) and time.monotonic() < end:
            await asyncio.sleep(_CLEARING_POLL)

    async def _doubt_what_it_read(self) -> None:
        """What it has changed of the shared models is verified again before somebody else uses it."""
        for key, seal in self.record.seals.items():
            if await asyncio.to_thread(seals.look, self._site.models.path(key)) != seal:
                self._site.models.doubt(key)

    def _after(self) -> None:
        if self._command.mounts:
            self._site.collect()
        seconds = self._keeps_for()
        if seconds > 0:
            self._letting_go = asyncio.get_running_loop().call_later(seconds, self._site.collect)

    def _keeps_for(self) -> float:
        """For how long its models are kept for a next attempt."""
        failure, ended = self.status.failure, self.status.finished_at
        if failure is None or not failure.retryable or ended is None:
            return 0.0
        return self._site.timing.keep_failed - (datetime.now(UTC) - ended).total_seconds()
