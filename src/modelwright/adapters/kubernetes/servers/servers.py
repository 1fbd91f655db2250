"""The Servers that there are, each run by the part that it belongs to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers import server_logs
from modelwright.adapters.kubernetes.servers.children import Children
from modelwright.adapters.kubernetes.servers.cloud_servers import CloudServers
from modelwright.adapters.kubernetes.servers.edge_servers import EdgeServers
from modelwright.adapters.kubernetes.servers.gateway_servers import GatewayServers
from modelwright.adapters.kubernetes.servers.mirrors import ServerMirrors
from modelwright.adapters.kubernetes.servers.part import Part, Place
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads import labels
from modelwright.adapters.kubernetes.workloads.kinds import Changed, Object, Pod, controller, going
from modelwright.adapters.kubernetes.workloads.mirror import Mirror
from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock
from modelwright.ports.errors import NotFound, Terminal
from modelwright.ports.workloads import Owner, Server, ServerStatus

PROGRAMS = frozenset({"modelServer", "container", "gateway"})
Key = tuple[str, str]
"""The owner's UID and the Server's name."""

AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)


class Servers:
    """Which part a Server belongs to is a matter of its program and layer. One that moves from a part to another is run
    by both until the new one serves: then the former one is removed.

    What is there is believed only of objects whose controller is the owner: the garbage collector removes what
    says so of somebody in another namespace.
    """

    def __init__(
        self,
        client: KubernetesClient,
        settings: ServerSettings,
        pods: Mirror[Pod],
        clock: ServerClock,
        changed: Changed,
        wrote: Changed,
    ) -> None:
        self._client = client
        self._changed = changed
        self._known: dict[str, Owner] = {}
        self._wanted: dict[Key, Part] = {}
        self.mirrors = ServerMirrors(client, pods, changed, self._node_changed)
        place = Place(client, settings, self.mirrors, Children(client, clock, wrote), changed, clock)
        self._cloud = CloudServers(place)
        self._parts: tuple[Part, ...] = (GatewayServers(place), EdgeServers(place), self._cloud)

    async def run(self) -> None:
        """Follow the cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in (*self.mirrors.followers, *self._parts):
                group.create_task(_for_ever(follower.run))

    # The port -------------------------------------------------------------------------------------------------------

    async def apply(self, server: Server) -> None:
        """Make it so. Raises Terminal (NotImplemented) for what cannot run here, and what the parts raise."""
        part = next((part for part in self._parts if part.takes(server)), None)
        if part is None:
            raise Terminal("a cluster runs models, serving images and gateways only", reason="NotImplemented")
        uid, name = server.owner.uid, server.name
        self._known[uid] = server.owner
        self._wanted[uid, name] = part
        await part.apply(server)
        await self._leave(part, server)

    async def _leave(self, part: Part, server: Server) -> None:
        """Remove what another part has of it, once this one answers."""
        uid, name = server.owner.uid, server.name
        former = [each for each in self._parts if each is not part and name in each.names(uid)]
        if not former:
            return
        status = part.status(server.owner, name)
        if server.replicas == 0 or (status is not None and status.up_to_date):
            for each in former:
                await each.remove(uid, name)

    def names(self, uid: str) -> set[str]:
        """The Servers of this owner."""
        return {name for part in self._parts for name in part.names(uid)}

    def statuses(self, uid: str) -> tuple[ServerStatus, ...]:
        """How this owner's Servers are doing, sorted by name."""
        owner = self._owner(uid)
        return tuple(self._status(owner, uid, name) for name in sorted(self.names(uid)))

    async def remove(self, uid: str, name: str) -> None:
        """Delete all of it."""
        for part in self._parts:
            await part.remove(uid, name)
        self._wanted.pop((uid, name), None)

    def owners(self) -> Iterator[Owner]:
        """Everybody who has objects that are not going, or whose next ones are still to be made."""
        for mirror in self.mirrors.owned:
            for child in mirror.all():
                if is_of_server(child) and not going(child):
                    yield self._known.get(child.metadata.labels.owner_uid) or labels.owner_of(child)
        for uid in {
            pod.metadata.labels.owner_uid for pod in self.mirrors.pods.all() if is_of_server(pod) and going(pod)
        }:
            if self.names(uid):
                yield from self.owners_of(uid)
        for uid in {uid for uid, _ in self._wanted}:
            if uid in self._known and self.names(uid):
                yield self._known[uid]

    def owners_of(self, uid: str) -> Collection[Owner]:
        """The owner, if it is known; else all that it may be."""
        known = self._known.get(uid)
        return (known,) if known is not None else {labels.owner_of(child) for child in self._children(uid)}

    def forget_owner(self, uid: str) -> None:
        """Nothing runs for it any more."""
        self._cloud.forget_owner(uid)
        self._known.pop(uid, None)
        self._wanted = {key: part for key, part in self._wanted.items() if key[0] != uid}

    async def logs(self, uid: str, name: str, *, follow: bool) -> AsyncGenerator[bytes]:
        """What its Pods print. Raises NotFound."""
        owner = self._owner(uid)
        if owner is None or name not in self.names(uid):
            raise NotFound(f"nothing of the name {name!r} runs for this owner")

        def pods() -> list[Pod]:
            return [pod for part in self._parts for pod in part.pods(owner, name)]

        async with aclosing(server_logs.read(self._client, pods, follow=follow)) as chunks:
            async for chunk in chunks:
                yield chunk

    # What is believed -----------------------------------------------------------------------------------------------

    def _children(self, uid: str) -> list[Any]:
        return [child for mirror in self.mirrors.owned for child in mirror.of(uid) if is_of_server(child)]

    def _owner(self, uid: str) -> Owner | None:
        """Whose objects these are: as it was applied, else as those say that it controls; None if they disagree."""
        known = self._known.get(uid)
        if known is not None:
            return known
        children = self._children(uid)
        said = {labels.owner_of(child) for child in children if controller(child) == uid}
        # What keeps models on a node has no owner reference, so as to outlive its owner until they are removed.
        said = said or {labels.owner_of(child) for child in children if not child.metadata.owner_references}
        return said.pop() if len(said) == 1 else None

    def _status(self, owner: Owner | None, uid: str, name: str) -> ServerStatus:
        if owner is None:
            return ServerStatus(name=name)
        found = {part: status for part in self._parts if (status := part.status(owner, name)) is not None}
        wanted = self._wanted.get((uid, name))
        if not found:
            return ServerStatus(name=name)
        answering = [part for part, status in found.items() if status.ready_replicas]
        if wanted not in found:
            return found[answering[0]] if answering else next(iter(found.values()))
        status = found[wanted]
        if status.ready_replicas or not answering:
            return status if len(found) == 1 else msgspec.structs.replace(status, up_to_date=False)
        return _moving(status, found[answering[0]])

    def _node_changed(self, node: str) -> None:
        for part in self._parts:
            part.node_changed(node)


async def _for_ever(run: Callable[[], Awaitable[None]]) -> None:
    """One that ends by an error that nobody has thought of must not end the others."""
    while True:
        try:
            await run()
        except Exception:
            log.exception("following servers: unexpected error, beginning again")
        await asyncio.sleep(AGAIN_SECONDS)


def is_of_server(child: Object) -> bool:
    """Whether it is part of a Server, or what one has left on a node."""
    return bool(child.metadata.labels.server or child.metadata.labels.kept_of)


def _moving(new: ServerStatus, former: ServerStatus) -> ServerStatus:
    """What answers is the former one; what is going on is the new one's."""
    return msgspec.structs.replace(
        former, versions=new.versions, failure=new.failure, notices=new.notices, up_to_date=False
    )
