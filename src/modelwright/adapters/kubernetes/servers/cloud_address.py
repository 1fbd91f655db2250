"""Where a Server in the cloud is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from modelwright.adapters.kubernetes.servers.kinds import Service
from modelwright.adapters.kubernetes.workloads.kinds import Pod


class Reached(msgspec.Struct, frozen=True):
    """`exposed` is False where only who is inside the cluster reaches it."""

    host: str
    port: int
    exposed: bool = True


def reached(
    service: Service, ready: Sequence[Pod], address_of: Callable[[str], str], cluster_domain: str
) -> Reached | None:
    """The load balancer; else a node that runs one of the `ready` Pods; else the name inside the cluster.

    None: nowhere, as nothing is ready. `address_of` knows the address of a node.
    """
    if not ready or not service.spec.ports:
        return None
    port = service.spec.ports[0]
    if service.spec.type == "LoadBalancer":
        for ingress in service.status.load_balancer.ingress or ():
            if ingress.ip or ingress.hostname:
                return Reached(ingress.ip or ingress.hostname, port.port)
    if port.node_port:
        for pod in sorted(ready, key=lambda pod: pod.spec.node_name):
            address = address_of(pod.spec.node_name) or pod.status.host_ip
            if address:
                return Reached(address, port.node_port)
    metadata = service.metadata
    return Reached(f"{metadata.name}.{metadata.namespace}.svc.{cluster_domain}", port.port, exposed=False)
