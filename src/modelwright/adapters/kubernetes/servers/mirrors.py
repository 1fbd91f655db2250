"""The mirrors of what Servers are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers import kinds
from modelwright.adapters.kubernetes.servers.kinds import Deployment, PodDisruptionBudget, Service
from modelwright.adapters.kubernetes.servers.node_mirror import NodeMirror
from modelwright.adapters.kubernetes.workloads.kinds import Changed, Pod
from modelwright.adapters.kubernetes.workloads.mirror import Mirror


class ServerMirrors:
    """`pods` are shared with the builds, whose Pods have no label `server`. `changed` is called with the UID of each
    owner whose objects have changed, `node_changed` with the name of a node."""

    def __init__(
        self, client: KubernetesClient, pods: Mirror[Pod], changed: Changed, node_changed: Callable[[str], None]
    ) -> None:
        self.pods = pods
        self.deployments = Mirror(client, kinds.DEPLOYMENTS, Deployment, changed)
        self.services = Mirror(client, kinds.SERVICES, Service, changed)
        self.budgets = Mirror(client, kinds.BUDGETS, PodDisruptionBudget, changed)
        self.nodes = NodeMirror(client, node_changed)
        self.owned: tuple[Mirror[Any], ...] = (self.deployments, self.services, self.budgets, pods)
        self._all: tuple[Mirror[Any] | NodeMirror, ...] = (*self.owned, self.nodes)

    @property
    def followers(self) -> tuple[Mirror[Any] | NodeMirror, ...]:
        """Those that are followed here: whoever shares its Pods follows these."""
        return tuple(mirror for mirror in self._all if mirror is not self.pods)

    async def filled(self) -> None:
        """Wait until all have been listed once."""
        for mirror in self._all:
            await mirror.synced.wait()
