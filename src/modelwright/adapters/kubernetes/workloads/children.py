"""Makes and removes the objects of a Task; each step may be repeated."""

from __future__ import annotations

from typing import Any

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.workloads import render_volume
from modelwright.adapters.kubernetes.workloads.kinds import Changed, Child, going
from modelwright.adapters.kubernetes.workloads.labels import volume_name
from modelwright.adapters.kubernetes.workloads.mirror import Mirror
from modelwright.adapters.kubernetes.workloads.nodes import Nodes
from modelwright.adapters.kubernetes.workloads.render_job import job
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.adapters.kubernetes.workloads.tasks import Mirrors, Parts
from modelwright.ports.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unavailable
from modelwright.ports.workloads import BuildImage, Failure, HostPath, Task

TRIES = 3


class NotYet(Exception):
    """The rest can be made when something changes of what is there: it is going, or Kubernetes has not taken it up."""


class Children:
    """Writes to the API server, and at once to the mirrors: nothing is decided on a state older than our own writes.

    `wrote` is told the UID of the owner after each of them.
    """

    def __init__(self, client: KubernetesClient, settings: JobSettings, mirrors: Mirrors, wrote: Changed) -> None:
        self._client = client
        self._settings = settings
        self._mirrors = mirrors
        self._wrote = wrote
        self._nodes = Nodes(client)

    def complete(self, task: Task, action: BuildImage) -> bool:
        """Whether all that the Task needs is there."""
        namespace, name = task.owner.namespace, task.name
        if not self._have(self._mirrors.jobs, task, namespace, name):
            return False
        return not render_volume.needs_volume(action.source) or (
            self._have(self._mirrors.claims, task, namespace, name)
            and self._have(self._mirrors.volumes, task, "", volume_name(namespace, name))
        )

    async def make(self, task: Task, action: BuildImage) -> Failure | None:
        """Make what is missing: volume, claim, Job. Why nothing can be made yet, if so.

        The claim comes when the volume is Available. The volume binder would else meet the claim before it knows of the
        volume, and look again only at its next resync (15 s): nothing that happens to a volume wakes a claim.

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
            volume = render_volume.volume(task, source, hostname)
            await self._make(self._mirrors.volumes, task, "", volume_name(namespace, name), volume)
            await self._taken_up(volume_name(namespace, name))
            await self._make(self._mirrors.claims, task, namespace, name, render_volume.claim(task, source))
        await self._make(self._mirrors.jobs, task, namespace, name, wanted)
        return None

    async def _taken_up(self, name: str) -> None:
        """Raises NotYet unless the volume binder knows of the volume, and it is no other claim's."""
        volume = self._mirrors.volumes.get("", name)
        if volume is not None and volume.status.phase == "Released":  # its claim was deleted: it takes no other
            await self._remove(self._mirrors.volumes, volume)
        if volume is None or volume.status.phase not in ("Available", "Bound"):
            raise NotYet(name)

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

    def _have(self, mirror: Mirror[Any], task: Task, namespace: str, name: str) -> bool:
        there: Child | None = mirror.get(namespace, name)
        return there is not None and not going(there) and there.metadata.labels.owner_uid == task.owner.uid

    async def _make(self, mirror: Mirror[Any], task: Task, namespace: str, name: str, body: JSON) -> None:
        for _ in range(TRIES):
            if self._have(mirror, task, namespace, name):
                return
            try:
                made = mirror.decode(await self._client.create_bytes(mirror.resource, namespace, body))
            except AlreadyExists:
                await self._adopt(mirror, task, namespace, name)
                continue
            except Forbidden as error:
                raise _explained(error, namespace) from error
            mirror.wrote(made)
            self._wrote(task.owner.uid)
            return
        raise Unavailable(f"the {mirror.resource.kind} {name} came and went {TRIES} times: trying again")

    async def _adopt(self, mirror: Mirror[Any], task: Task, namespace: str, name: str) -> None:
        """One of that name is there: it is ours, from before a crash or a moment ago, or it is somebody's."""
        try:
            there: Child = mirror.decode(await self._client.get_bytes(mirror.resource, namespace, name))
        except NotFound:
            return  # it has just gone
        if there.metadata.labels.owner_uid != task.owner.uid:
            raise AlreadyExists(
                f"there is a {mirror.resource.kind} {name} already that belongs to something else"
                f"{f' (namespace {namespace})' if namespace else ''}: delete it, or give this object another name",
                reason="NameTaken",
            )
        mirror.wrote(there)
        if going(there):
            raise NotYet(name)

    async def _remove(self, mirror: Mirror[Any], item: Child) -> None:
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
        f"there is no node {source.node_name} with the label kubernetes.io/hostname, and {source.path} lies on it: "
        "the build begins when that node joins the cluster. `kubectl get nodes` lists those that there are"
    )
    return Failure(reason="NodeNotFound", message=message, retryable=True)


def _explained(error: Forbidden, namespace: str) -> Forbidden | Unavailable:
    if "being terminated" in error.message:
        return Unavailable(f"the namespace {namespace} is going: {error.message}", reason="NamespaceTerminating")
    return error
