"""What an admin says of the servers that are made."""

from __future__ import annotations

import msgspec

from modelwright.adapters.kubernetes.servers.catalogue import Catalogue
from modelwright.ports.workloads import Resources

# Each has a limit of memory of its own, so that none is given by the namespace, which knows nothing of it.
AGENT_RESOURCES = Resources(requests={"cpu": "10m", "memory": "64Mi"}, limits={"memory": "512Mi"})
GATEWAY_RESOURCES = Resources(requests={"cpu": "50m", "memory": "64Mi"}, limits={"memory": "1Gi"})


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How servers run. `agent_image` is the operator's own image: it has the agent.

    `plain_http` lists the registries (HOST or HOST:PORT) that may be spoken to without TLS. User and group are those of
    our containers. `edge_folder` is where models are kept on edge nodes. `namespace` is the operator's own, where it
    may run Pods that try out what a node can do; with `image_volumes` False it never does. `agent_resources` are those
    of each container of the agent, whatever it does there, and `gateway_resources` those of each gateway.
    """

    agent_image: str
    gateway_image: str
    catalogue: Catalogue
    image_pull_secrets: tuple[str, ...] = ()
    plain_http: tuple[str, ...] = ()
    edge_folder: str = "/var/lib/modelwright"
    run_as_user: int = 65532
    run_as_group: int = 65532
    image_volumes: bool = True
    progress_deadline_seconds: int = 600
    cluster_domain: str = "cluster.local"
    namespace: str = ""
    agent_resources: Resources = AGENT_RESOURCES
    gateway_resources: Resources = GATEWAY_RESOURCES
