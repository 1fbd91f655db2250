"""How the models of a Server in the cloud come into its Pods: mounted from their images, or fetched."""

from __future__ import annotations

from collections.abc import Sequence

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.servers import cloud_objects as render
from modelwright.adapters.kubernetes.servers.cloud_pod import mountable
from modelwright.adapters.kubernetes.servers.image_volumes import ImageVolumes
from modelwright.adapters.kubernetes.servers.kinds import Deployment
from modelwright.adapters.kubernetes.servers.node_choice import EDGE_LABEL
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.workloads import waiting
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.workloads import Placement, Server

PATIENCE_SECONDS = 15.0
"""How long a Server waits for what its nodes can do to be found out, once for each node."""


class CloudSources:
    """Decides when the Pods change anyway, and stays with that: a node that comes later starts no rollout."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._volumes = ImageVolumes(place.client, place.settings, place.mirrors.nodes.get)

    async def rendered(self, server: Server, there: Deployment | None, pods: Sequence[Pod]) -> JSON:
        """The Deployment that is wanted. Raises what rendering raises."""
        settings = self._place.settings
        fetched = render.deployment(server, settings, mounted=False)
        if not mountable(server) or not settings.image_volumes:
            return fetched
        nodes = candidates(server.placement, self._place.mirrors.nodes.all())
        mounted = render.deployment(server, settings, mounted=True)
        if there is not None and render.same_template(there, fetched):
            return fetched
        if there is not None and render.same_template(there, mounted):
            await self._volumes.fit(nodes, patience=0)  # those that have come since
            failing = self._volumes.fails(nodes) or any(cannot_mount(pod, server) for pod in pods)
            return fetched if failing else mounted
        return mounted if await self._volumes.fit(nodes, patience=PATIENCE_SECONDS) else fetched

    def node_changed(self, name: str) -> None:
        """A node came, went or is another."""
        self._volumes.node_changed(name)

    async def aclose(self) -> None:
        """Find out no more."""
        await self._volumes.aclose()


def candidates(placement: Placement, nodes: Sequence[Node]) -> list[Node]:
    """The nodes that its Pods may come to, as they are now."""
    return [
        node
        for node in nodes
        if node.ready == "True"
        and (node.name == placement.node_name if placement.node_name else not node.repels)
        and (placement.node_name or EDGE_LABEL in placement.node_selector or EDGE_LABEL not in node.labels)
        and all(node.labels.get(key) == value for key, value in placement.node_selector.items())
    ]


def cannot_mount(pod: Pod, server: Server) -> bool:
    """Whether a model's own image cannot be had by the node: the agent may know better how, and says why if not."""
    images = [image.image for image in mountable(server)]
    return any(
        each.state.waiting is not None
        and each.state.waiting.reason in waiting.IMAGE_FAULTS
        and any(image in each.state.waiting.message for image in images)
        for each in pod.status.containers
    )
