"""Gateways: a bare Pod each, beside the edge model; where that is in the cloud, the same on a node there."""

from __future__ import annotations

from modelwright.adapters.kubernetes.servers import gateway_pod, keeper_lines
from modelwright.adapters.kubernetes.servers.edge_bare import BarePods, Sort
from modelwright.adapters.kubernetes.servers.labels import GATEWAY
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.ports.workloads import Gateway, Server


class GatewayServers(BarePods):
    """Implements `Part`."""

    def __init__(self, place: Place) -> None:
        sort = Sort(
            component=GATEWAY,
            container=gateway_pod.CONTAINER,
            render=gateway_pod.render,
            read=keeper_lines.gateway_state,
            kept_path=_kept_path,
        )
        super().__init__(place, sort)

    def takes(self, server: Server) -> bool:
        """Every gateway, wherever it is to run."""
        return isinstance(server.program, Gateway)


def _kept_path(server: Server, settings: ServerSettings) -> str:
    program = server.program
    return gateway_pod.kept_path(program, settings) if isinstance(program, Gateway) else ""
