"""What an admin tells the operator, as one value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from modelwright.adapters.kubernetes.lease_record import LeaseTimes
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.settings import JobSettings
from modelwright.ports.errors import NotFound

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.access import Access


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """By which Lease one of several replicas is chosen; an empty namespace is the operator's own."""

    enabled: bool = True
    namespace: str = ""
    name: str = "modelwright-operator"
    times: LeaseTimes = LeaseTimes()


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one operator process runs. Without a kubeconfig it runs in a Pod; `resync` is in seconds.

    Without `serving` it builds images, and serves nothing.
    """

    jobs: JobSettings
    serving: ServerSettings | None = None
    kubeconfig: Path | None = None
    context: str = ""
    host: str = "::"  # probes come from the node, metrics from anywhere in the cluster
    port: int = 8080
    election: LeaderElection = LeaderElection()
    resync: float = 600.0

    def access(self) -> Access:
        """How to reach the API server. Raises NotFound (NotInCluster), Invalid."""
        from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
        from modelwright.adapters.kubernetes.locate import in_cluster

        if self.kubeconfig is not None:
            return load_kubeconfig([self.kubeconfig], self.context)
        found = in_cluster()
        if found is None:
            raise NotFound(
                "this is no Pod with a service account, and no kubeconfig was named: say which cluster is meant with"
                " --kubeconfig FILE or MODELWRIGHT_KUBECONFIG",
                reason="NotInCluster",
            )
        return found

    def servers(self, access: Access) -> ServerSettings | None:
        """How servers run; what the operator tries out itself happens in its own namespace."""
        if self.serving is None:
            return None
        return msgspec.structs.replace(self.serving, namespace=self.serving.namespace or access.namespace)
