"""What a node calls itself in its labels: a local volume is tied to that, not to the node's name."""

from __future__ import annotations

import asyncio

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads.kinds import NODES
from modelwright.ports.errors import NotFound

KNOWN_SECONDS = 300.0
MISSING_SECONDS = 5.0


class _Labels(msgspec.Struct, frozen=True):
    hostname: str = msgspec.field(default="", name="kubernetes.io/hostname")


class _Metadata(msgspec.Struct, frozen=True):
    labels: _Labels = _Labels()


class _Node(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_DECODER = msgspec.json.Decoder(_Node)


class Nodes:
    """Asks the API server once for each node, and again after a while."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._known: dict[str, tuple[float, str]] = {}

    async def hostname(self, name: str) -> str:
        """The label kubernetes.io/hostname of this node; empty if there is no such node, or it has no such label."""
        now = asyncio.get_running_loop().time()
        until, hostname = self._known.get(name, (0.0, ""))
        if until > now:
            return hostname
        try:
            node = _DECODER.decode(await self._client.get_bytes(NODES, "", name))
            hostname = node.metadata.labels.hostname
        except NotFound:
            hostname = ""
        self._known[name] = (now + (KNOWN_SECONDS if hostname else MISSING_SECONDS), hostname)
        return hostname
