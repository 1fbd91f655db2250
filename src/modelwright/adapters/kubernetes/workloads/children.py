"""Makes and removes the objects of a Task; each step may be repeated."""

from __future__ import annotations

import asyncio

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.workloads import render_volume
from modelwright.adapters.kubernetes.workloads.kinds import Changed, going
from modelwright.adapters.kubernetes.workloads.labels import MANAGER, volume_name
from modelwright.adapters.kubernetes.workloads.mirror import C, Mirror
from modelwright.adapters.kubernetes.workloads.nodes import Nodes
from modelwright.adapters.kubernetes.workloads.render_job import job
from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.adapters.kubernetes.workloads.tasks import Mirrors, Parts
from modelwright.adapters.kubernetes.workloads.waiting import BOUND
from modelwright.ports.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unavailable
from modelwright.ports.workloads import BuildImage, Failure, HostPath, Task

TRIES = 3


class NotYet(Exception):
    """Something has to happen first: a former object of this name to go, or the claim to be bound."""


class Children:
    """Writes to the API server, and at once to the mirrors: nothing is decided on a state older than our own writes.

    `wrote` is told the UID of the owner after each of them.
    """

    def __init__(
        self, client: KubernetesClient, settings: JobSettings, mirrors: Mirrors, clock: ServerClock, wrote: Changed
    ) -> None:
        self._client = client
        self._settings = settings
        self._mirrors = mirrors
        self._clock = clock
        self._wrote = wrote
        self._nodes = Nodes(client)
        self.made_at = 0.0
        """When anything was made, by the clock of the event loop."""

    def complete(self, task: Task, action: BuildImage) -> bool:
        """Whether all that the Task needs is there."""
        namespace, name = task.owner.namespace, task.name
        if self._have(self._mirrors.jobs, task, namespace, name) is None:
            return False
        return not render_volume.needs_volume(action.source) or (
            self._have(self._mirrors.claims, task, namespace, name) is not None
            and self._have(self._mirrors.volumes, task, "", volume_name(namespace, name)) is not None
        )

    async def make(self, task: Task, action: BuildImage) -> Failure | None:
        """Make what is missing: claim, volume, and the Job once these are bound. Why nothing can be made yet, if so.

        Raises NotYet, AlreadyExists (NameTaken), Invalid, and what the client raises.
        """
        namespace, name, source = task.owner.namespace, task.name, action.source
        wanted = job(task, action, self._settings)
        if render_volume.needs_volume(source):
            hostname = ""
            if isinstance(source, HostPath):
                hostname = await self._hostname(source)
                if not hostname:
                    return _no_node(source)
            claim = await self._make(self._mirrors.claims, task, namespace, name, render_volume.claim(task, source))
            await self._make_volume(task, render_volume.volume(task, source, claim.metadata.uid, hostname))
            self._check_bound(task)
        await self._make(self._mirrors.jobs, task, namespace, name, wanted)
        return None

    def _check_bound(self, task: Task) -> None:
        """A Pod whose claim is not bound yet costs 10 seconds and more: scheduler and kubelet look again only then."""
        claim = self._have(self._mirrors.claims, task, task.owner.namespace, task.name)
        if claim is None or claim.status.phase != BOUND:
            raise NotYet(task.name)

    async def _make_volume(self, task: Task, body: JSON) -> None:
        """Make it, after one that belongs to a former claim: that one takes no other."""
        volumes, name = self._mirrors.volumes, volume_name(task.owner.namespace, task.name)
        for _ in range(TRIES):
            volume = await self._make(volumes, task, "", name, body)
            if volume.spec.claim_ref.uid == body["spec"]["claimRef"]["uid"]:
                return
            await self._remove(volumes, volume)
            if volumes.get("", name) is not None:
                raise NotYet(name)
        raise Unavailable(f"the PersistentVolume {name} is made again and again by somebody else: trying again")

    async def remove(self, parts: Parts) -> None:
        """Delete Job (its Pods follow), claim and volume, each if it is still this very object."""
        if parts.job is not None:
            await self._remove(self._mirrors.jobs, parts.job)
        if parts.claim is not None:
            await self._remove(self._mirrors.claims, parts.claim)
        if parts.volume is not None:
            await self._remove(self._mirrors.volumes, parts.volume)

    async def _hostname(self, source: HostPath) -> str:
        if not source.node_name:
            raise Invalid(f"{source.path} lies on a node: say on which one (nodeName)", reason="StoragePathInvalid")
        return await self._nodes.hostname(source.node_name)

    def _have(self, mirror: Mirror[C], task: Task, namespace: str, name: str) -> C | None:
        there = mirror.get(namespace, name)
        if there is None or going(there) or there.metadata.labels.owner_uid != task.owner.uid:
            return None
        return there

    async def _make(self, mirror: Mirror[C], task: Task, namespace: str, name: str, body: JSON) -> C:
        for _ in range(TRIES):
            there = self._have(mirror, task, namespace, name)
            if there is not None:
                return there
            try:
                made = mirror.decode(await self._client.create_bytes(mirror.resource, namespace, body))
            except AlreadyExists:
                await self._adopt(mirror, task, namespace, name)
                continue
            except Forbidden as error:
                raise _explained(error, namespace) from error
            self.made_at = asyncio.get_running_loop().time()
            mirror.wrote(made)
            self._clock.saw(made.metadata.creation_timestamp)
            self._wrote(task.owner.uid)
            return made
        raise Unavailable(f"the {mirror.resource.kind} {name} came and went {TRIES} times: trying again")

    async def _adopt(self, mirror: Mirror[C], task: Task, namespace: str, name: str) -> None:
        """One of that name is there: it is ours, from before a crash or a moment ago, or it is somebody's."""
        try:
            there = mirror.decode(await self._client.get_bytes(mirror.resource, namespace, name))
        except NotFound:
            return  # it has just gone
        if there.metadata.labels.owner_uid != task.owner.uid or there.metadata.labels.managed_by != MANAGER:
            raise AlreadyExists(
                f"there is a {mirror.resource.kind} {name} already that belongs to something else"
                f"{f' (namespace {namespace})' if namespace else ''}: delete it, or give this object another name",
                reason="NameTaken",
            )
        mirror.wrote(there)
        known = mirror.get(namespace, name)
        if known is not None and going(known):
            raise NotYet(name)

    async def _remove(self, mirror: Mirror[C], item: C) -> None:
        metadata = item.metadata
        if metadata.deletion_timestamp is not None:
            return
        left = None
        try:
            answer = await self._client.delete(mirror.resource, metadata.namespace, metadata.name, uid=metadata.uid)
            # A Status says that it is gone; the object itself, that a finalizer holds it.
            left = mirror.convert(answer) if answer.get("kind") == mirror.resource.kind else None
        except (NotFound, Conflict):  # gone, or another of that name since
            pass
        mirror.deleted(item, left)
        self._wrote(metadata.labels.owner_uid)


def _no_node(source: HostPath) -> Failure:
    message = (
        f"{source.path} lies on the node {source.node_name}, and there is no node of that name, or it lacks the label "
        "kubernetes.io/hostname: the build begins when it is there. `kubectl get nodes` lists those that there are"
    )
    return Failure(reason="NodeNotFound", message=message, retryable=True)


def _explained(error: Forbidden, namespace: str) -> Forbidden | Unavailable:
    if "being terminated" in error.message:
        return Unavailable(f"the namespace {namespace} is going: {error.message}", reason="NamespaceTerminating")
    return error
