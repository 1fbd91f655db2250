"""Workloads that run nothing and forget nothing: what was applied, what is seen of it, and every call that changed it.

Like the real ones it outlives an engine, keeps one workload for each name, never runs an ended task again, says at once
that a changed server is not up to date, and gets there a step of the event loop later.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import msgspec

from modelwright.adapters.embedded.workloads.changes import Changes
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.errors import ModelwrightError, NotFound, Unavailable
from modelwright.ports.workloads import (
    BuildImage,
    BuildResult,
    Command,
    Failure,
    Gateway,
    HostPath,
    ModelServer,
    Owner,
    Server,
    ServerStatus,
    Task,
    TaskStatus,
    VersionStatus,
    WorkerCounts,
    WorkloadStatus,
)

Key = tuple[str, str]
REGISTRY = "127.0.0.1:5000"
HERE = Capabilities(
    containers=False,
    storage=frozenset({"hostPath"}),
    frameworks=frozenset({"onnx"}),
    default_registry=REGISTRY,
    single_node="laptop",
)


class MemoryWorkloads:
    """`refusals` by owner name are raised by apply, `broken` versions cannot be loaded, `failures` are of tasks.

    `overlaps` are the owners of which a task was started while another one ran. Commands that fail say that they have
    ended so long `ended_before` now, so that no pause after a failure keeps a test waiting.
    """

    def __init__(self) -> None:
        self.applied: dict[Key, Task | Server] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.refusals: dict[str, ModelwrightError] = {}
        self.immovable: set[str] = set()
        self.broken: dict[str, Failure] = {}
        self.failures: dict[str, list[Failure]] = {}
        self.overlaps: list[str] = []
        self.ended_before = timedelta()
        self.free = asyncio.Event()
        self.free.set()
        self.applying = asyncio.Event()
        self.subscriptions = 0
        self.cut = asyncio.Event()
        self._seen: dict[Key, WorkloadStatus] = {}
        self._changes = Changes()
        self._paused: list[Key] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return HERE

    def names(self, kind: str) -> list[str]:
        """Whose workloads there are, of owners of this kind."""
        return sorted(found.owner.name for found in self.applied.values() if found.owner.kind == kind)

    def pause(self) -> None:
        """Let nothing get further from now on."""
        self._paused = []

    def go_on(self) -> None:
        waiting, self._paused = self._paused or [], None
        for key in waiting:
            self._advance(key)

    async def apply(self, workload: Task | Server) -> None:
        self.applying.set()
        await self.free.wait()
        if workload.owner.name in self.refusals:
            raise self.refusals[workload.owner.name]
        key = (workload.owner.uid, workload.name)
        there = self.applied.get(key)
        if there == workload or (there is not None and isinstance(workload, Task)):
            return
        self.calls.append(("start" if there is None else "change", workload.owner.kind, workload.owner.name))
        if isinstance(workload, Task) and self._runs_for(workload.owner):
            self.overlaps.append(workload.owner.name)
        self.applied[key] = workload
        self._show(key, self._begun(workload, self._seen.get(key)))
        asyncio.get_running_loop().call_soon(self._advance, key)

    async def observe(self, owner_uid: str) -> tuple[WorkloadStatus, ...]:
        return tuple(self._seen[key] for key in sorted(self._seen) if key[0] == owner_uid)

    async def remove(self, owner_uid: str, name: str) -> None:
        key = (owner_uid, name)
        if key not in self.applied:
            return
        owner = self.applied[key].owner
        if owner.name in self.immovable:
            raise Unavailable(f"{name} cannot be removed now")
        self.calls.append(("remove", owner.kind, owner.name))
        del self.applied[key], self._seen[key]

    async def changes_of(self) -> AsyncIterator[Owner]:
        async for owner in self._changes.subscribe():
            if self.cut.is_set():
                raise Unavailable("the watch of the workloads was cut")
            yield owner

    def changes(self) -> AsyncIterator[Owner]:
        self.subscriptions += 1
        return self.changes_of()

    def cut_off(self, owner_name: str) -> None:
        """Break the watch with the next change, which nobody hears of."""
        self.cut.set()
        key = next(key for key, found in self.applied.items() if found.owner.name == owner_name)
        self._changes.notify(self.applied[key].owner)

    async def owners(self) -> frozenset[Owner]:
        return frozenset(found.owner for found in self.applied.values())

    async def logs(self, owner_uid: str, name: str, *, follow: bool = False) -> AsyncIterator[bytes]:
        if (owner_uid, name) not in self.applied:
            raise NotFound(f"{name} does not run")
        yield b""

    # What it does ---------------------------------------------------------------------------------------------------

    def _runs_for(self, owner: Owner) -> bool:
        seen = (status for (uid, _), status in self._seen.items() if uid == owner.uid)
        return any(isinstance(status, TaskStatus) and status.phase in ("Pending", "Running") for status in seen)

    def _show(self, key: Key, status: WorkloadStatus) -> None:
        if self._seen.get(key) != status:
            self._seen[key] = status
            self._changes.notify(self.applied[key].owner)

    def _begun(self, workload: Task | Server, before: WorkloadStatus | None) -> WorkloadStatus:
        if isinstance(workload, Task):
            return TaskStatus(name=workload.name, phase="Pending")
        if isinstance(before, ServerStatus):
            return msgspec.structs.replace(before, up_to_date=False, versions=self._versions(workload))
        return ServerStatus(name=workload.name, host="127.0.0.1", node_name="laptop")

    def _advance(self, key: Key) -> None:
        workload = self.applied.get(key)
        if self._paused is not None:
            self._paused.append(key)
        elif isinstance(workload, Server):
            self._show(key, self._served(workload))
        elif workload is not None and isinstance(workload.action, Command):
            self._train(key, workload)
        elif workload is not None:
            self._show(key, self._built(workload))

    def _versions(self, server: Server) -> tuple[VersionStatus, ...]:
        if isinstance(server.program, Gateway):
            return ()
        assert isinstance(server.program, ModelServer)
        name = server.program.default
        if name in self.broken:
            return (VersionStatus(version=name, phase="Failed", failure=self.broken[name]),)
        return (VersionStatus(version=name, phase="Ready"),)

    def _served(self, server: Server) -> ServerStatus:
        before = self._seen[server.owner.uid, server.name]
        assert isinstance(before, ServerStatus)
        version = server.program.default if isinstance(server.program, ModelServer) else ""
        if version in self.broken:
            return msgspec.structs.replace(before, up_to_date=False, versions=self._versions(server))
        return msgspec.structs.replace(
            before,
            port=server.port or before.port or 40000,
            replicas=server.replicas,
            ready_replicas=server.replicas,
            serving_version=version if server.replicas else "",
            up_to_date=True,
            versions=self._versions(server),
        )

    def _train(self, key: Key, task: Task) -> None:
        """Pending, running, ended: a step of the event loop for each."""
        before, now = self._seen[key], datetime.now(UTC)
        assert isinstance(before, TaskStatus)
        assert isinstance(task.action, Command)
        count = task.action.workers
        if before.phase == "Pending":
            running = TaskStatus(name=task.name, phase="Running", started_at=now, workers=WorkerCounts(active=count))
            self._show(key, msgspec.structs.replace(running, node_name="laptop"))
            asyncio.get_running_loop().call_soon(self._advance, key)
        elif failures := self.failures.get(task.owner.name):
            ended = msgspec.structs.replace(before, phase="Failed", failure=failures.pop(0))
            times = {"started_at": now - self.ended_before, "finished_at": now - self.ended_before}
            self._show(key, msgspec.structs.replace(ended, workers=WorkerCounts(failed=count), **times))
        elif before.phase == "Running":
            ended = msgspec.structs.replace(before, phase="Succeeded", exit_code=0, finished_at=now)
            self._show(key, msgspec.structs.replace(ended, workers=WorkerCounts(succeeded=count)))

    def _built(self, task: Task) -> TaskStatus:
        assert isinstance(task.action, BuildImage)
        assert isinstance(task.action.source, HostPath)
        failures = self.failures.get(task.owner.name, [])
        now = datetime.now(UTC)
        if failures:
            return TaskStatus(name=task.name, phase="Failed", failure=failures.pop(0), finished_at=now)
        digest = "sha256:" + hashlib.sha256(task.action.source.path.encode()).hexdigest()
        resolved = f"{task.action.repository}@{digest}"
        result = BuildResult(digest=digest, tag=task.action.tags[0], resolved=resolved, size_bytes=1)
        return TaskStatus(name=task.name, phase="Succeeded", result=result, finished_at=now)
