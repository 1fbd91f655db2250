"""The nodes of the cluster, as far as serving asks for them, kept up to date by a watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Literal

import msgspec

from modelwright.adapters.kubernetes.client import EVERYTHING, KubernetesClient
from modelwright.adapters.kubernetes.watch import Line, watch_once
from modelwright.adapters.kubernetes.workloads.kinds import NODES, Condition
from modelwright.ports.errors import Expired, ModelwrightError

log = logging.getLogger(__name__)

WATCH_SECONDS = 280
FIRST_PAUSE, LAST_PAUSE = 0.1, 10.0
REPELS = ("NoSchedule", "NoExecute")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `ready` is what its condition says: `Unknown` while it does not answer, `False` also where it has no
    container network. `repels` says that it takes only Pods that tolerate its taints, or none."""

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    internal_ip: str = ""
    external_ip: str = ""
    ready: Literal["True", "False", "Unknown"] = "Unknown"
    repels: bool = False
    kubelet_version: str = ""
    runtime_version: str = ""

    @property
    def address(self) -> str:
        """Where its ports are reached: the address inside the cluster's own network, else the one outside."""
        return self.internal_ip or self.external_ip


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Taint(msgspec.Struct, frozen=True):
    effect: str = ""


class _Spec(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] | None = None


class _Address(msgspec.Struct, frozen=True):
    type: str
    address: str


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    kubelet_version: str = ""
    container_runtime_version: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    node_info: _Info = _Info()
    addresses: tuple[_Address, ...] | None = None
    conditions: tuple[Condition, ...] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER = msgspec.json.Decoder(_Object)


class NodeMirror:
    """All nodes by name. `changed` is called with the name of each that came, went, or is another in what is read."""

    def __init__(
        self, client: KubernetesClient, changed: Callable[[str], None], *, watch_seconds: int = WATCH_SECONDS
    ) -> None:
        self.synced = asyncio.Event()
        self._client = client
        self._changed = changed
        self._watch_seconds = watch_seconds
        self._nodes: dict[str, Node] = {}

    def get(self, name: str) -> Node | None:
        """The node, None if there is none of that name."""
        return self._nodes.get(name)

    def all(self) -> list[Node]:
        """All nodes, sorted by name."""
        return [self._nodes[name] for name in sorted(self._nodes)]

    async def run(self) -> None:
        """List, then watch, for ever; a watch that is lost goes on, one that has expired lists again."""
        version, pause = "", FIRST_PAUSE
        while True:
            try:
                version = version or await self._fill()
                lines = watch_once(self._client, NODES, version, EVERYTHING, seconds=self._watch_seconds)
                async with aclosing(lines):
                    async for line in lines:
                        version = self._absorb(line)
                        pause = FIRST_PAUSE
            except Expired:
                version = ""
            except ModelwrightError as error:
                log.warning("watch of nodes: %s", error.message)
            except Exception:  # what cannot be followed now must not end the rest
                log.exception("watch of nodes: unexpected error, listing again")
                version = ""
            await asyncio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)

    async def _fill(self) -> str:
        items, version = await self._client.list_bytes(NODES)
        found = {node.name: node for node in (read_node(item)[0] for item in items)}
        for name in self._nodes.keys() - found.keys():
            self._set(name, None)
        for name, node in found.items():
            self._set(name, node)
        self.synced.set()
        return version

    def _absorb(self, line: Line) -> str:
        node, version = read_node(line.object)
        if line.type != "BOOKMARK":
            self._set(node.name, None if line.type == "DELETED" else node)
        return version

    def _set(self, name: str, node: Node | None) -> None:
        if self._nodes.get(name) == node:
            return
        if node is None:
            del self._nodes[name]
        else:
            self._nodes[name] = node
        self._changed(name)


def read_node(data: msgspec.Raw | bytes) -> tuple[Node, str]:
    """A node as the API server gives it, and its resourceVersion."""
    found = _DECODER.decode(data)
    addresses = found.status.addresses or ()
    ready = next((each.status for each in found.status.conditions or () if each.type == "Ready"), "Unknown")
    node = Node(
        name=found.metadata.name,
        uid=found.metadata.uid,
        labels=found.metadata.labels or {},
        internal_ip=next((each.address for each in addresses if each.type == "InternalIP"), ""),
        external_ip=next((each.address for each in addresses if each.type == "ExternalIP"), ""),
        ready="True" if ready == "True" else "False" if ready == "False" else "Unknown",
        kubelet_version=found.status.node_info.kubelet_version,
        runtime_version=found.status.node_info.container_runtime_version,
        repels=found.spec.unschedulable or any(each.effect in REPELS for each in found.spec.taints or ()),
    )
    return node, found.metadata.resource_version
