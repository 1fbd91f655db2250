"""Running a command to its end under a small process of its own (`modelwright agent run`) that outlives us."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from modelwright.adapters.embedded.workloads import logs, mounts, quantity
from modelwright.adapters.embedded.workloads.cache import key_of
from modelwright.adapters.embedded.workloads.process import (
    NONCE,
    Identity,
    Process,
    identify,
    is_alive,
    new_nonce,
    spawn,
    sweep,
)
from modelwright.adapters.embedded.workloads.records import TaskRecord
from modelwright.adapters.embedded.workloads.replica import expand
from modelwright.adapters.embedded.workloads.site import Site
from modelwright.adapters.embedded.workloads.task import TaskSupervisor
from modelwright.ports.errors import Terminal, Unavailable
from modelwright.ports.workloads import Command, Failure, ModelSource, Task, TaskStatus

_RUNNER = (sys.executable, "-m", "modelwright.agent.run")
_INTERRUPTED = Failure(
    reason="Interrupted", message="it was ended before it was done, and is not run again by itself", retryable=True
)


class Result(msgspec.Struct, rename="camel"):
    """What the runner wrote down (`agent.run` is the other side)."""

    exit_code: int
    started_at: datetime
    finished_at: datetime
    reason: str = ""
    message: str = ""


def check(task: Task, command: Command) -> None:
    """Raises Terminal for what cannot run here, Invalid for values that are wrong."""
    if command.image:
        raise Terminal(
            f"{task.name} needs the container image {command.image}, and there are no containers on this machine: "
            "leave image empty to run the command itself, or use the Kubernetes mode",
            reason="NeedsContainers",
        )
    mounts.check(command.mounts)
    quantity.memory_limit(task.resources)


class CommandSupervisor(TaskSupervisor):
    """A command. It goes on when we are killed; what it came to is found by its files."""

    def __init__(self, site: Site, record: TaskRecord, command: Command) -> None:
        super().__init__(site, record)
        self._command = command
        self._process: Process | None = None
        self._exited = asyncio.Event()
        self._stopping = False
        self._killed_for: Failure | None = None
        self._models: dict[ModelSource, Path] = {}

    def model_keys(self) -> set[str]:
        if self.ended:
            return set()
        namespace = self.record.task.owner.namespace
        return {key_of(source, namespace) for source in mounts.sources(self._command.mounts)}

    async def stop(self) -> None:
        self._stopping = True
        if self._task is None:
            return
        if self._process is None:  # it has not begun: the next program begins it
            self._task.cancel()
        else:
            self._process.signal(signal.SIGTERM)
        await asyncio.wait([self._task])

    def release(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._process is not None:
            self._site.sampler.release(self._process.identity.pid)
            self._process.close()

    # Running --------------------------------------------------------------------------------------------------------

    async def _run(self) -> TaskStatus:
        identity = self._find()
        if identity is None and not (self.folder / "started").exists():
            await self._fetch()
            identity = self._spawn()
        if identity is not None:
            await self._wait(identity)
        sweep(identity, self.record.nonce)
        return self._outcome()

    def _find(self) -> Identity | None:
        """The process of a former run of this program."""
        identity = self.record.process
        if identity is None and self.record.nonce in self._site.found:
            identity = identify(self._site.found[self.record.nonce])
        return identity if identity is not None and is_alive(identity) else None

    async def _fetch(self) -> None:
        namespace = self.record.task.owner.namespace
        for source in mounts.sources(self._command.mounts):
            while True:
                held = self._site.models.look(source, namespace)
                if held.ready:
                    self._models[source] = held.path
                    break
                if held.failure is not None and not held.failure.retryable:
                    raise Terminal(held.failure.message, reason=held.failure.reason)
                if held.progress is not None:
                    self._tell(msgspec.structs.replace(self.status, progress=held.progress))
                await self._site.models.changed()

    def _spawn(self) -> Identity:
        task, command = self.record.task, self._command
        self.record.nonce = self.record.nonce or new_nonce(self._site.run.domain)
        self._site.run.write(self.record)
        root, work = self.folder / "root", self.folder / "work"
        mounts.lay_out(command.mounts, root, self._models)
        work.mkdir(exist_ok=True)
        env = self._environment(root)
        cwd = mounts.real_path(command.working_dir, command.mounts, root, self._models) or str(work)
        deadline, grace = str(task.deadline_seconds), str(self._site.timing.task_grace)
        options = ["--folder", str(self.folder), "--deadline", deadline, "--grace", grace, "--cwd", cwd]
        words = [expand(word, env) for word in (*command.command, *command.args)]
        output = logs.open_log(self.folder / "log")
        try:
            identity = spawn([*_RUNNER, *options, "--", *words], env={**os.environ, **env}, output=output)
        except OSError as error:
            raise Unavailable(f"cannot start a process: {error}", reason="CommandNotStarted") from error
        finally:
            os.close(output)
        self.record.process = identity
        self._site.run.write(self.record)
        return identity

    def _environment(self, root: Path) -> dict[str, str]:
        """The command's own variables, each of which may use those before it, with mount paths made real."""
        env: dict[str, str] = {NONCE: self.record.nonce}
        for name, value in self._command.env.items():
            real = mounts.real_path(value, self._command.mounts, root, self._models)
            env[name] = expand(real, env)
        return env

    async def _wait(self, identity: Identity) -> None:
        self._process = Process(identity, self.record.nonce, self._exited.set)
        limit = quantity.memory_limit(self.record.task.resources)
        self._site.sampler.limit(identity.pid, limit, lambda used: self._over_limit(limit, used))
        self._tell(
            msgspec.structs.replace(
                self.status, phase="Running", progress=None, started_at=self.status.started_at or datetime.now(UTC)
            )
        )
        if self._stopping:
            self._process.signal(signal.SIGTERM)
        end = None
        while not self._exited.is_set():
            logs.rotate(self.folder / "log")
            if self._stopping:
                end = end or time.monotonic() + self._site.timing.task_grace + 5.0
                if time.monotonic() > end:
                    self._process.kill_all()
            try:
                async with asyncio.timeout(self._site.timing.rest_poll):
                    await self._exited.wait()
            except TimeoutError:
                continue
        self._site.sampler.release(identity.pid)

    def _over_limit(self, limit: int, used: int) -> None:
        self._killed_for = Failure(
            reason="OOMKilled",
            message=f"it used {used >> 20} MiB of memory and its limit is {limit >> 20} MiB: "
            "raise resources.limits.memory",
        )
        if self._process is not None:
            self._process.kill_all()

    def _outcome(self) -> TaskStatus:
        if self._killed_for is not None:
            return self._failed(self._killed_for, -signal.SIGKILL)
        try:
            result = msgspec.json.decode((self.folder / "result.json").read_bytes(), type=Result)
        except (FileNotFoundError, msgspec.MsgspecError):
            return self._failed(_INTERRUPTED)
        status = msgspec.structs.replace(
            self.status,
            started_at=result.started_at,
            finished_at=result.finished_at,
            exit_code=result.exit_code,
            progress=None,
        )
        if result.exit_code == 0 and not result.reason:
            return msgspec.structs.replace(status, phase="Succeeded")
        return msgspec.structs.replace(status, phase="Failed", failure=self._why(result))

    def _why(self, result: Result) -> Failure:
        if result.reason == "Interrupted":
            return _INTERRUPTED
        lines = logs.last_lines(self.folder / "log")
        message = f"{result.message}; last lines: {lines}" if lines else result.message
        retryable = result.reason == ""
        return Failure(reason=result.reason or "CommandFailed", message=message, retryable=retryable)
