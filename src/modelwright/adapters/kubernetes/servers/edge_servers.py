"""Models and serving images at the edge."""

from __future__ import annotations

from modelwright.adapters.kubernetes.servers import edge_model, keeper_lines
from modelwright.adapters.kubernetes.servers.edge_bare import BarePods, Sort
from modelwright.adapters.kubernetes.servers.labels import SERVE
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.ports.workloads import Container, ModelServer, Server


class EdgeServers(BarePods):
    """Implements `Part`."""

    def __init__(self, place: Place) -> None:
        sort = Sort(
            component=SERVE,
            container=edge_model.KEEPER,
            render=edge_model.render,
            read=keeper_lines.keeper_state,
            kept_path=lambda *_: "",
        )
        super().__init__(place, sort)

    def takes(self, server: Server) -> bool:
        """What is to run at the edge."""
        return server.placement.layer == "edge" and isinstance(server.program, ModelServer | Container)
