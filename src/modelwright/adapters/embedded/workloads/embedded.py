"""Workloads on one machine, as supervised processes."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType

from modelwright.adapters.embedded.workloads import logs
from modelwright.adapters.embedded.workloads.builds import BuildSupervisor
from modelwright.adapters.embedded.workloads.cache import ModelCache
from modelwright.adapters.embedded.workloads.changes import Changes
from modelwright.adapters.embedded.workloads.checks import check
from modelwright.adapters.embedded.workloads.commands import CommandSupervisor
from modelwright.adapters.embedded.workloads.obtaining import Obtaining
from modelwright.adapters.embedded.workloads.pool import WorkerPool
from modelwright.adapters.embedded.workloads.process import leaders, sweep
from modelwright.adapters.embedded.workloads.records import Record, RunDirectory, ServerRecord, TaskRecord
from modelwright.adapters.embedded.workloads.sampler import MemorySampler
from modelwright.adapters.embedded.workloads.server import ServerSupervisor
from modelwright.adapters.embedded.workloads.site import GATEWAY_COMMAND, SERVER_COMMAND, Site
from modelwright.adapters.embedded.workloads.timing import Timing
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.errors import NotFound, Unavailable
from modelwright.ports.workloads import (
    BuildImage,
    Owner,
    Server,
    Task,
    WorkloadStatus,
)

Supervisor = BuildSupervisor | CommandSupervisor | ServerSupervisor

_FRAMEWORKS = {"onnx": ("onnxruntime",), "sklearn": ("sklearn", "skops"), "tensorflow": ("tensorflow",)}


class EmbeddedWorkloads:
    """Implements `Workloads`; an async context manager, at whose end everything that runs is drained and ended.

    `data_dir` is used by one program at a time: `run/`, `models/` and `secrets/` in it are ours.
    `registry` is the embedded registry's `host:port` and the folder that it keeps its images in.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        registry: tuple[str, Path],
        former_registries: frozenset[str] = frozenset(),
        host: str = "127.0.0.1",
        server_command: tuple[str, ...] = SERVER_COMMAND,
        gateway_command: tuple[str, ...] = GATEWAY_COMMAND,
        timing: Timing | None = None,
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._registry = registry
        self._former_registries = former_registries
        self._host = host
        self._server_command = server_command
        self._gateway_command = gateway_command
        self._timing = timing or Timing()
        self._node_name = socket.gethostname()
        self._frameworks = frozenset(
            name for name, modules in _FRAMEWORKS.items() if all(map(importlib.util.find_spec, modules))
        )
        self._changes = Changes()
        self._running: dict[tuple[str, str], Supervisor] = {}
        self._names: dict[str, set[str]] = {}
        self._removing: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._run: RunDirectory | None = None
        self._site: Site
        self._pool: WorkerPool
        self._sampler: MemorySampler

    @property
    def capabilities(self) -> Capabilities:
        """Frameworks are looked for once, and not imported."""
        return Capabilities(
            containers=False,
            storage=frozenset({"hostPath"}),
            frameworks=self._frameworks,
            default_registry=self._registry[0],
            single_node=self._node_name,
        )

    # Begin and end --------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> EmbeddedWorkloads:
        """Adopt what runs. Raises Unavailable if another program uses the data directory."""
        self._run = run = RunDirectory(self._data_dir / "run")
        records = list(run.read())
        found = leaders(f"{run.domain}.")
        known = {nonce for record in records for nonce in _nonces(record)}
        for nonce in found.keys() - known:
            sweep(None, nonce)
        self._sampler = MemorySampler(self._timing.memory_sample)
        self._pool = WorkerPool(run.root / ".workers", run.domain, self._timing, self._sampler)
        self._pool.start()
        self._site = Site(
            run=run,
            data_dir=self._data_dir,
            pool=self._pool,
            sampler=self._sampler,
            timing=self._timing,
            registry=self._registry,
            server_command=self._server_command,
            gateway_command=self._gateway_command,
            host=self._host,
            found=found,
            node_name=self._node_name,
            notify=self._changes.notify,
            collect=self._collect,
        )
        obtain = Obtaining(self._pool, self._data_dir, self._registry, self._former_registries)
        self._site.models = ModelCache(self._data_dir / "models", obtain, self._timing, self._wake_servers)
        for record in records:
            self._begin(record)
        self._collect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, *, stop_servers: bool = True) -> None:
        """End what runs, or leave it to be adopted by the next program. A second call does nothing."""
        run, self._run = self._run, None
        if run is None:
            return
        supervisors = list(self._running.values())
        if stop_servers:
            await asyncio.gather(*(supervisor.stop() for supervisor in supervisors), *self._removing.values())
        for supervisor in supervisors:
            supervisor.release()
        for removing in self._removing.values():
            removing.cancel()
        self._site.models.close()
        self._pool.close()
        self._sampler.close()
        self._changes.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.close()

    # The port -------------------------------------------------------------------------------------------------------

    async def apply(self, workload: Task | Server) -> None:
        """Raises Terminal with reason NeedsContainers or StorageNotSupported for what cannot run here, and Invalid."""
        run = self._open()
        check(workload)
        key = (workload.owner.uid, workload.name)
        run.folder(*key)
        removing = self._removing.get(key)
        if removing is not None:
            await asyncio.shield(removing)
        there = self._running.get(key)
        try:
            if isinstance(there, ServerSupervisor) and isinstance(workload, Server):
                there.apply(workload)
            elif there is None:
                record = TaskRecord(task=workload) if isinstance(workload, Task) else ServerRecord(server=workload)
                run.write(record)
                self._begin(record)
        except OSError as error:
            raise Unavailable(
                f"cannot write to {run.root} ({error.strerror}): make room and try again", reason="DiskError"
            ) from error

    async def observe(self, owner_uid: str) -> tuple[WorkloadStatus, ...]:
        """How this owner's workloads are doing, sorted by name."""
        return tuple(self._running[owner_uid, name].status for name in sorted(self._names.get(owner_uid, ())))

    async def remove(self, owner_uid: str, name: str) -> None:
        """Returns when its processes have ended: a server is drained first."""
        self._open()
        key = (owner_uid, name)
        if key not in self._removing and key in self._running:
            self._removing[key] = asyncio.create_task(self._remove(key))
        if key in self._removing:
            await asyncio.shield(self._removing[key])

    def changes(self) -> AsyncIterator[Owner]:
        """The owner of each workload whose status has changed since this was called."""
        return self._changes.subscribe()

    async def owners(self) -> frozenset[Owner]:
        """Everybody for whom something runs or is kept."""
        return frozenset(_owner(running) for running in self._running.values())

    def logs(self, owner_uid: str, name: str, *, follow: bool = False) -> AsyncIterator[bytes]:
        """Raises NotFound, when read."""
        return self._logs((owner_uid, name), follow=follow)

    # Parts ----------------------------------------------------------------------------------------------------------

    def _open(self) -> RunDirectory:
        if self._run is None:
            raise Unavailable("the program is stopping", reason="Stopping")
        return self._run

    def _begin(self, record: Record) -> None:
        supervisor = self._supervisor(record)
        owner = _owner(supervisor)
        key = (owner.uid, supervisor.status.name)
        self._running[key] = supervisor
        self._names.setdefault(owner.uid, set()).add(supervisor.status.name)
        supervisor.start()
        if record.removed:
            self._removing[key] = asyncio.create_task(self._remove(key))

    def _supervisor(self, record: Record) -> Supervisor:
        if isinstance(record, ServerRecord):
            return ServerSupervisor(self._site, record)
        if isinstance(record.task.action, BuildImage):
            return BuildSupervisor(self._site, record)
        return CommandSupervisor(self._site, record, record.task.action)

    async def _remove(self, key: tuple[str, str]) -> None:
        try:
            supervisor = self._running[key]
            models = supervisor.model_keys()
            await supervisor.remove()
            supervisor.release()
            self._forget(key)
            if models:
                self._collect()
        finally:
            del self._removing[key]

    def _forget(self, key: tuple[str, str]) -> None:
        uid, name = key
        del self._running[key]
        self._names[uid].discard(name)
        if not self._names[uid]:
            del self._names[uid]

    def _collect(self) -> None:
        """Remove the models that nobody names any more."""
        keys = [running.model_keys() for running in self._running.values()]
        self._site.models.keep_only(set().union(*keys))

    def _wake_servers(self) -> None:
        for running in self._running.values():
            if isinstance(running, ServerSupervisor):
                running.wake()

    async def _logs(self, key: tuple[str, str], *, follow: bool) -> AsyncIterator[bytes]:
        running = self._running.get(key)
        if running is None:
            raise NotFound(f"nothing of the name {key[1]!r} runs for this owner")
        run = self._open()

        def ended() -> bool:
            gone = self._running.get(key) is not running
            return gone or (not isinstance(running, ServerSupervisor) and running.ended)

        async for chunk in logs.read(run.folder(*key) / "log", follow=follow, ended=ended):
            yield chunk


def _owner(supervisor: Supervisor) -> Owner:
    record = supervisor.record
    return record.server.owner if isinstance(record, ServerRecord) else record.task.owner


def _nonces(record: Record) -> list[str]:
    if isinstance(record, TaskRecord):
        return [record.nonce] if record.nonce and record.status is None else []
    return [replica.nonce for generation in record.generations for replica in generation.replicas]
