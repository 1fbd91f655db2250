"""Servers at the edge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.errors import Terminal
from modelwright.ports.workloads import Gateway, Owner, Server, ServerStatus


class GatewayServers:
    """Implements `Part`."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def takes(self, server: Server) -> bool:
        return isinstance(server.program, Gateway)

    async def apply(self, server: Server) -> None:
        raise Terminal("this operator does not run it yet", reason="NotImplemented")

    def names(self, owner_uid: str) -> Iterable[str]:
        return ()

    def status(self, owner: Owner, name: str) -> ServerStatus | None:
        return None

    async def remove(self, owner_uid: str, name: str) -> None:
        return None

    def pods(self, owner: Owner, name: str) -> list[Pod]:
        return []

    def node_changed(self, node: str) -> None:
        return None

    async def run(self) -> None:
        await asyncio.Event().wait()
