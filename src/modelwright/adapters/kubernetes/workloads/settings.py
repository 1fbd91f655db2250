"""What an admin says of the Jobs that are made."""

from __future__ import annotations

import msgspec

from modelwright.ports.capabilities import StoragePolicy
from modelwright.ports.workloads import Resources

DEFAULT_KANIKO_IMAGE = "martizih/kaniko:v1.27.6"
"""Of https://github.com/osscontainertools/kaniko, the maintained fork that publishes images; Kaniko's own repository
is archived since June 2025."""

DEFAULT_RESOURCES = Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "1Gi"})


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How builds run. `agent_image` is the operator's own image: it has the agent.

    `plain_http` lists the registries (HOST or HOST:PORT) that may be spoken to without TLS. User and group are those of
    the native builder: it reads the model as they may. `resources` are those of each container of a build.
    """

    agent_image: str
    kaniko_image: str = DEFAULT_KANIKO_IMAGE
    image_pull_secrets: tuple[str, ...] = ()
    default_registry: str = ""
    plain_http: tuple[str, ...] = ()
    run_as_user: int = 65532
    run_as_group: int = 65532
    resources: Resources = DEFAULT_RESOURCES
    storage_policy: StoragePolicy = StoragePolicy()
