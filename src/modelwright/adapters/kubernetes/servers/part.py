"""What runs the Servers of one sort: in the cloud, at the edge, gateways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers.children import Children
from modelwright.adapters.kubernetes.servers.mirrors import ServerMirrors
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.kinds import Changed, Pod
from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock
from modelwright.ports.workloads import Owner, Server, ServerStatus


class Place(msgspec.Struct, frozen=True):
    """What each part is given. `children` writes to the API server and to the mirrors at once; `changed` is to be
    called with an owner's UID when there is news of it that no mirror tells; `clock` has the API server's time."""

    client: KubernetesClient
    settings: ServerSettings
    mirrors: ServerMirrors
    children: Children
    changed: Changed
    clock: ServerClock


class Part(Protocol):
    """Runs Servers. Everything but `run` is asked once the mirrors are filled."""

    def takes(self, server: Server) -> bool:
        """Whether this is where it belongs."""
        ...

    async def apply(self, server: Server) -> None:
        """Make it so; the same again writes nothing. Raises what `Workloads.apply` may."""
        ...

    def names(self, owner_uid: str) -> Iterable[str]:
        """The Servers of this owner of which anything is there that is not going, by whatever labels it says so."""
        ...

    def status(self, owner: Owner, name: str) -> ServerStatus | None:
        """How it is doing, from what its owner controls in its own namespace; None if nothing of it is there."""
        ...

    async def remove(self, owner_uid: str, name: str) -> None:
        """Delete all of it, in whatever namespace; it is gone, or going, when this returns."""
        ...

    def pods(self, owner: Owner, name: str) -> list[Pod]:
        """Those whose logs are its logs, oldest first."""
        ...

    def node_changed(self, node: str) -> None:
        """A node came, went or is another: call `changed` for whom that matters."""
        ...

    async def run(self) -> None:
        """What is done besides, such as reading logs, until cancelled."""
        ...
