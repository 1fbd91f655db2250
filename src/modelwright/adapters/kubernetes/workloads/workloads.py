"""The Workloads port on a Kubernetes API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers import servers
from modelwright.adapters.kubernetes.servers.servers import Servers
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import logs
from modelwright.adapters.kubernetes.workloads.attend import Attendant
from modelwright.adapters.kubernetes.workloads.changes import Changes
from modelwright.adapters.kubernetes.workloads.children import Children, NotYet
from modelwright.adapters.kubernetes.workloads.clearing import Clearing
from modelwright.adapters.kubernetes.workloads.news import News, Seen
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.adapters.kubernetes.workloads.tasks import Key, Mirrors, Parts, Tasks
from modelwright.adapters.kubernetes.workloads.unfinished import Unfinished
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.errors import NotFound, Terminal
from modelwright.ports.workloads import BuildImage, Efs, HostPath, Nfs, Owner, Server, Task, WorkloadStatus

PROGRAMS = frozenset({"buildImage"})
STUCK_SECONDS = 5.0
VOLUMES = {HostPath: "hostPath", Nfs: "nfs", Efs: "efs"}


class KubernetesWorkloads:
    """Implements `Workloads` for builds and, where `serving` says how, for servers; an async context manager, which
    follows the cluster while it is open.

    What runs goes on when it is closed: the next one finds it. `owners` and `observe` wait until all objects have been
    listed once.
    """

    def __init__(self, client: KubernetesClient, settings: JobSettings, serving: ServerSettings | None = None) -> None:
        self._client = client
        self._settings = settings
        self._serving = serving
        self._mirrors = Mirrors(client, self._changed, volumes=settings.storage_policy.create_volumes)
        self._tasks = Tasks(self._mirrors)
        self._news = News(self._seen, self._tell, self._forget)
        self._children = Children(client, settings, self._mirrors, self._tasks.clock, self._news.wrote)
        self._changes = Changes()
        self._attendant = Attendant(client, self._mirrors, self._tasks, self._changed, self._changes.tell)
        self._unfinished = Unfinished(self._make, self._changes.tell)
        self._making = 0
        self._clearing = Clearing(self._clear, self.busy)
        self._tasks.leaves = self._clearing.holds
        self._servers: Servers | None = None
        if serving is not None:
            pods, clock = self._mirrors.pods, self._tasks.clock
            self._servers = Servers(client, serving, pods, clock, self._changed, self._news.wrote)
        self._running: list[asyncio.Task[None]] = []

    @property
    def capabilities(self) -> Capabilities:
        """What the admin's settings allow."""
        made = frozenset(VOLUMES.values()) if self._settings.storage_policy.create_volumes else frozenset()
        here = Capabilities(
            containers=True,
            storage=made | {"claim"},
            frameworks=frozenset(),
            default_registry=self._settings.default_registry,
            programs=PROGRAMS,
            storage_policy=self._settings.storage_policy,
        )
        if self._serving is None:
            return here
        catalogue = self._serving.catalogue
        return msgspec.structs.replace(
            here, programs=PROGRAMS | servers.PROGRAMS, frameworks=catalogue.frameworks, secured=catalogue.secured
        )

    async def __aenter__(self) -> KubernetesWorkloads:
        followers = [mirror.run() for mirror in self._mirrors.all]
        followers += [self._attendant.run(), self._clearing.run()]
        if self._servers is not None:
            followers.append(self._servers.run())
        self._running = [asyncio.create_task(follower) for follower in followers]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Follow no longer."""
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        await self._unfinished.aclose()
        for task in running:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # The port -------------------------------------------------------------------------------------------------------

    async def apply(self, workload: Task | Server) -> None:
        """Make what is missing. Raises Terminal with reason NotImplemented or StorageNotSupported for what cannot run
        here, AlreadyExists (NameTaken), and what the API server refuses."""
        with self._news.applied(workload.owner.uid):
            await self._apply(workload)

    async def _apply(self, workload: Task | Server) -> None:
        if isinstance(workload, Server) and self._servers is not None:
            await self._filled()
            await self._servers.apply(workload)
            return
        task, action = self._supported(workload)
        await self._filled()
        await self._clearing.now((task.owner.uid, task.name))
        self._tasks.know(task.owner)
        if not self._children.complete(task, action) and not self._unfinished.holds(task.owner.uid, task.name):
            await self._make(task, action)

    async def observe(self, owner_uid: str) -> tuple[WorkloadStatus, ...]:
        """How this owner's workloads are doing, sorted by name; asks nobody."""
        await self._filled()
        tasks = self._tasks.statuses(owner_uid)
        if self._servers is None:
            return tasks
        return tuple(sorted((*tasks, *self._servers.statuses(owner_uid)), key=lambda status: status.name))

    async def remove(self, owner_uid: str, name: str) -> None:
        """Delete its objects; they are gone, or going, when this returns. What a build has left that succeeded may go
        later (`clearing`)."""
        await self._filled()
        with self._news.removed(owner_uid, name):
            await self._remove(owner_uid, name)

    async def _remove(self, owner_uid: str, name: str) -> None:
        if self._servers is not None and name in self._servers.names(owner_uid):
            await self._servers.remove(owner_uid, name)
        await self._unfinished.drop(owner_uid, name)
        key = (owner_uid, name)
        if self.busy() and not self._clearing.holds(key) and self._tasks.succeeded(owner_uid, name):
            self._clearing.put_off(key)
        else:
            await self._clear(key)
        self._tasks.forget(key)

    def changes(self) -> AsyncIterator[Owner]:
        """The owner of each workload whose status has changed by itself, not by `apply` or `remove`."""
        return self._changes.listen()

    async def owners(self) -> frozenset[Owner]:
        """Everybody for whom something is there."""
        await self._filled()
        served = frozenset(self._servers.owners()) if self._servers is not None else frozenset()
        return frozenset(self._tasks.owners()) | served

    def logs(self, owner_uid: str, name: str, *, follow: bool = False) -> AsyncIterator[bytes]:
        """What the containers of its Pod have printed, one after the other. Raises NotFound, when read."""
        return self._logs(owner_uid, name, follow=follow)

    async def _filled(self) -> None:
        await self._mirrors.filled()
        if self._servers is not None:
            await self._servers.mirrors.filled()

    def busy(self) -> bool:
        """Whether builds wait to begin, and do: one that is tried again and again in vain holds nothing up."""
        stuck = asyncio.get_running_loop().time() - self._children.made_at > STUCK_SECONDS
        return (self._making > 0 or self._unfinished.any) and not stuck

    # Parts ----------------------------------------------------------------------------------------------------------

    def _supported(self, workload: Task | Server) -> tuple[Task, BuildImage]:
        if not isinstance(workload, Task) or not isinstance(workload.action, BuildImage):
            raise Terminal("only builds run on a cluster by now", reason="NotImplemented")
        kind = VOLUMES.get(type(workload.action.source), "claim")
        if kind not in self.capabilities.storage:
            raise Terminal(
                f"the operator may make no volumes here, which {kind} takes: use a persistentVolumeClaim",
                reason="StorageNotSupported",
            )
        return workload, workload.action

    async def _clear(self, key: Key) -> None:
        for parts in self._tasks.everywhere(*key):
            await self._children.remove(parts)

    async def _make(self, task: Task, action: BuildImage) -> None:
        owner, key = task.owner, (task.owner.uid, task.name)
        refused = None
        self._making += 1
        try:
            refused = await self._children.make(task, action)
        except NotYet:
            self._unfinished.add(task, action)
        finally:
            self._making -= 1
        self._tasks.refused.pop(key, None)
        if refused is not None:
            self._tasks.refused[key] = (owner, refused)
        self._tasks.know(owner)  # what was there of it may have gone meanwhile, and the owner been forgotten
        self._news.wrote(owner.uid)

    def _changed(self, uid: str) -> None:
        """Something of this owner's is another, which need not mean that a status is."""
        self._unfinished.wake(uid)
        self._news.changed(uid)

    def _seen(self, uid: str) -> Seen:
        """The statuses, those of Tasks with which of their objects live."""
        tasks = self._tasks.seen(uid)
        return tasks if self._servers is None else (*tasks, *((each, None) for each in self._servers.statuses(uid)))

    def _tell(self, uid: str) -> None:
        owners = set(self._tasks.owners_of(uid))
        if self._servers is not None:
            owners |= set(self._servers.owners_of(uid))
        for owner in owners:
            self._changes.tell(owner)

    def _forget(self, uid: str) -> None:
        """Nothing runs for this owner any more."""
        self._tasks.forget_owner(uid)
        if self._servers is not None:
            self._servers.forget_owner(uid)

    async def _logs(self, owner_uid: str, name: str, *, follow: bool) -> AsyncIterator[bytes]:
        await self._filled()
        if self._servers is not None and name in self._servers.names(owner_uid):
            async with aclosing(self._servers.logs(owner_uid, name, follow=follow)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        if name not in self._tasks.trusted(owner_uid):
            raise NotFound(f"nothing of the name {name!r} runs for this owner")

        def current() -> Parts | None:
            return self._tasks.trusted(owner_uid).get(name)

        async with aclosing(logs.read(self._client, current, follow=follow)) as chunks:
            async for chunk in chunks:
                yield chunk
