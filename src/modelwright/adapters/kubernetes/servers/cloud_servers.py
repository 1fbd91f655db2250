"""Servers in the cloud: a Deployment, a Service, and a PodDisruptionBudget from two replicas on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import cloud_objects as render
from modelwright.adapters.kubernetes.servers.children import is_owners
from modelwright.adapters.kubernetes.servers.cloud_attend import CloudAttendant
from modelwright.adapters.kubernetes.servers.cloud_sources import CloudSources
from modelwright.adapters.kubernetes.servers.cloud_status import Seen, is_ready, server_status
from modelwright.adapters.kubernetes.servers.kinds import Deployment, PodDisruptionBudget, Service
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.servers.written import Written
from modelwright.adapters.kubernetes.workloads.kinds import Pod, controller, going
from modelwright.adapters.kubernetes.workloads.mirror import C, Mirror
from modelwright.ports.errors import AlreadyExists, Unavailable
from modelwright.ports.workloads import Container, ModelServer, Owner, Server, ServerStatus

CLOUD = "cloud"


class CloudServers:
    """Implements `Part`.

    What stands in the objects is compared with what was rendered; a change of anything of a Deployment since our last
    write (its generation) has it applied once more, which puts right what is ours.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._mirrors = place.mirrors
        self._written = Written()
        self._attendant = CloudAttendant(place, self._open_pods)
        self._sources = CloudSources(place)

    def takes(self, server: Server) -> bool:
        return server.placement.layer == CLOUD and isinstance(server.program, ModelServer | Container)

    async def run(self) -> None:
        try:
            await self._attendant.run()
        finally:
            await self._sources.aclose()

    # Making ---------------------------------------------------------------------------------------------------------

    async def apply(self, server: Server) -> None:
        """Raises what the catalogue raises, AlreadyExists (NameTaken), and what the API server refuses."""
        await self._deployment(server)
        await self._service(server)
        await self._budget(server)

    async def _deployment(self, server: Server) -> None:
        mirror, owner = self._mirrors.deployments, server.owner
        there = self._place.children.have(mirror, owner.uid, owner.namespace, server.name)
        wanted = await self._sources.rendered(server, there, self.pods(owner, server.name))
        if there is not None:
            as_written = self._written.is_as_written(server, there)
            if as_written and not render.deployment_differs(there, wanted):
                return
        self._written.wrote(server, await self._ensure(mirror, there, wanted))

    async def _service(self, server: Server) -> None:
        there = self._service_of(server.owner, server.name)
        if there is not None:
            wanted = render.service(server, there.metadata.name)
            if render.must_be_made_anew(there, wanted):
                await self._place.children.remove(self._mirrors.services, there)
                raise Unavailable("its Service is made anew, with another class of load balancer", after=1.0)
            if render.service_differs(there, wanted):
                await self._ensure(self._mirrors.services, there, wanted)
            return
        if render.may_name_service(server.owner.name):
            try:
                await self._ensure(self._mirrors.services, None, render.service(server, server.owner.name))
            except AlreadyExists:
                self._check_former(server)
            else:
                return
        await self._ensure(self._mirrors.services, None, render.service(server, render.own_service_name(server)))

    def _check_former(self, server: Server) -> None:
        """The Service of a former owner of this name goes by itself. Raises Unavailable while it is there."""
        there = self._mirrors.services.get(server.owner.namespace, server.owner.name)
        if there is None or there.metadata.labels.owner_uid == server.owner.uid:
            return
        if there.metadata.annotations.name == server.owner.name:
            raise Unavailable(f"the Service of the former {server.owner.name} has not gone yet: trying again")

    async def _budget(self, server: Server) -> None:
        mirror, owner = self._mirrors.budgets, server.owner
        there = self._place.children.have(mirror, owner.uid, owner.namespace, server.name)
        if server.replicas < 2:
            if there is not None:
                await self._place.children.remove(mirror, there)
            return
        wanted = render.budget(server)
        if there is None or render.budget_differs(there, wanted):
            await self._ensure(mirror, there, wanted)

    async def _ensure(self, mirror: Mirror[C], there: C | None, wanted: JSON) -> C:
        children = self._place.children
        return await (children.make(mirror, wanted) if there is None else children.change(mirror, there, wanted))

    # Removing -------------------------------------------------------------------------------------------------------

    async def remove(self, owner_uid: str, name: str) -> None:
        for mirror in self._main:
            for child in mirror.of(owner_uid):
                if child.metadata.labels.server == name:
                    await self._place.children.remove(mirror, child)
        self._written.forget(owner_uid, name)

    def forget_owner(self, uid: str) -> None:
        """Nothing of it is there any more, whoever has taken it away."""
        self._written.forget_owner(uid)

    # Seeing ---------------------------------------------------------------------------------------------------------

    def names(self, owner_uid: str) -> Iterable[str]:
        return {
            child.metadata.labels.server
            for mirror in self._main
            for child in mirror.of(owner_uid)
            if child.metadata.labels.server and not going(child)
        }

    def status(self, owner: Owner, name: str) -> ServerStatus | None:
        deployment = self._mirrors.deployments.get(owner.namespace, name)
        if deployment is None or going(deployment) or not is_owners(deployment, owner.uid):
            return ServerStatus(name=name) if name in self.names(owner.uid) else None
        service = self._service_of(owner, name)
        seen = Seen(
            deployment=deployment,
            service=service,
            pods=self.pods(owner, name),
            hints=self._attendant.hints,
            owned=self._owned(owner, deployment, service, self._mirrors.budgets.get(owner.namespace, name)),
            address_of=self._address_of,
            cluster_domain=self._place.settings.cluster_domain,
            now=self._place.clock.now(),
        )
        return server_status(name, seen)

    def pods(self, owner: Owner, name: str) -> list[Pod]:
        found = [
            pod
            for pod in self._mirrors.pods.of(owner.uid)
            if pod.metadata.namespace == owner.namespace and pod.metadata.labels.server == name and _is_cloud(pod)
        ]
        return sorted(found, key=lambda pod: (str(pod.metadata.creation_timestamp or ""), pod.metadata.name))

    def node_changed(self, node: str) -> None:
        self._sources.node_changed(node)
        for pod in self._pods():
            if pod.spec.node_name == node:
                self._place.changed(pod.metadata.labels.owner_uid)

    # Parts ----------------------------------------------------------------------------------------------------------

    @property
    def _main(self) -> tuple[Mirror[Any], ...]:
        return self._mirrors.deployments, self._mirrors.services, self._mirrors.budgets

    def _service_of(self, owner: Owner, name: str) -> Service | None:
        """One that has lost its owner too, if there is no other."""
        found = [
            service
            for service in self._mirrors.services.of(owner.uid)
            if service.metadata.labels.server == name
            and service.metadata.namespace == owner.namespace
            and is_owners(service, owner.uid)
            and not going(service)
        ]
        return min(found, key=lambda service: (not controller(service), service.metadata.name), default=None)

    @staticmethod
    def _owned(owner: Owner, *parts: Deployment | Service | PodDisruptionBudget | None) -> bool:
        """Whether none of these has lost its owner; what somebody else controls is none of ours."""
        return all(controller(part) for part in parts if part is not None and is_owners(part, owner.uid))

    def _pods(self) -> Iterator[Pod]:
        return (pod for pod in self._mirrors.pods.all() if pod.metadata.labels.server and _is_cloud(pod))

    def _open_pods(self) -> list[Pod]:
        return [pod for pod in self._pods() if not going(pod) and not is_ready(pod)]

    def _address_of(self, node: str) -> str:
        found = self._mirrors.nodes.get(node)
        return found.address if found is not None else ""


def _is_cloud(pod: Pod) -> bool:
    return pod.metadata.labels.layer == CLOUD and controller(pod) not in ("", pod.metadata.labels.owner_uid)
