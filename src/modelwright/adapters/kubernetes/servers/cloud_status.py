"""How a Server in the cloud is doing, from its Deployment, its Service and its Pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from modelwright.adapters.kubernetes.servers import server_failures
from modelwright.adapters.kubernetes.servers.cloud_address import reached
from modelwright.adapters.kubernetes.servers.cloud_pod import FETCH, SERVER
from modelwright.adapters.kubernetes.servers.kinds import Deployment, Service
from modelwright.adapters.kubernetes.workloads import status, waiting
from modelwright.adapters.kubernetes.workloads.kinds import Container, Pod, condition, going
from modelwright.ports.workloads import Failure, Progress, ServerStatus, VersionStatus

OVER = ("Succeeded", "Failed")


class Hint(msgspec.Struct, frozen=True):
    """What was found out of a Pod that its status does not say."""

    progress: Progress | None = None
    failure: Failure | None = None


NOTHING = Hint()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a Server. `pods` are its own, old and new, also those that are going. `owned`: nobody has taken
    its owner from any of it."""

    deployment: Deployment
    service: Service | None
    pods: Sequence[Pod]
    hints: Mapping[str, Hint]
    address_of: Callable[[str], str]
    cluster_domain: str
    now: datetime
    owned: bool = True


def server_status(name: str, seen: Seen) -> ServerStatus:
    """Pods tell it before their Deployment does."""
    there = [pod for pod in seen.pods if not going(pod) and pod.status.phase not in OVER]
    ready = [pod for pod in there if is_ready(pod)]
    new = [pod for pod in there if is_new(pod, seen.deployment)]
    wanted = seen.deployment.spec.replicas
    # A Pod on a node that does not answer stays until the node is back, and serves nobody.
    left = [pod for pod in seen.pods if going(pod) and not status.unreachable(pod) and pod.status.phase not in OVER]
    settled = len(there) == len(new) == wanted == len(ready) and not left
    up_to_date = settled and seen.owned and seen.service is not None and not seen.deployment.spec.paused
    failure = None if settled else _failure(seen, there, new)
    served = {pod.metadata.annotations.version for pod in ready}
    at = reached(seen.service, ready, seen.address_of, seen.cluster_domain) if seen.service is not None else None
    return ServerStatus(
        name=name,
        host=at.host if at is not None else "",
        port=at.port if at is not None else 0,
        exposed=at.exposed if at is not None else True,
        replicas=len(there),
        ready_replicas=len(ready),
        serving_version=served.pop() if len(served) == 1 else "",
        up_to_date=up_to_date,
        versions=_versions(seen, new, failure),
        failure=failure,
        restarts=sum(_server(pod).restart_count for pod in there),
    )


def is_new(pod: Pod, deployment: Deployment) -> bool:
    """Whether it was made from the Deployment's present template."""
    return pod.metadata.annotations.rendered == deployment.spec.template.metadata.annotations.rendered


def is_ready(pod: Pod) -> bool:
    return not going(pod) and condition(pod.status.conditions, "Ready") is not None


def fetching(pod: Pod) -> bool:
    """Whether the model is on its way to it."""
    return any(each.name == FETCH and each.state.running is not None for each in pod.status.containers)


def _failure(seen: Seen, there: Sequence[Pod], new: Sequence[Pod]) -> Failure | None:
    """What keeps the new Pods from being ready; where all of them are, the others."""
    late = [pod for pod in new if not is_ready(pod)] or [pod for pod in there if not is_ready(pod)]
    for pod in sorted(late, key=lambda pod: pod.metadata.name):
        hint = seen.hints.get(pod.metadata.uid, NOTHING)
        found = server_failures.of_pod(pod, seen.now) or (None if waiting.started(pod) else hint.failure)
        if found is not None:
            return found
    deployment = seen.deployment
    if deployment.status.observed_generation < deployment.metadata.generation:
        return None  # what it says is about what it was before
    return server_failures.of_conditions(deployment.metadata.namespace, deployment.status.conditions)


def _versions(seen: Seen, new: Sequence[Pod], failure: Failure | None) -> tuple[VersionStatus, ...]:
    version = seen.deployment.spec.template.metadata.annotations.version
    if not version or not seen.deployment.spec.replicas:
        return ()
    if any(is_ready(pod) for pod in new):
        return (VersionStatus(version=version, phase="Ready"),)
    if failure is not None:
        return (VersionStatus(version=version, phase="Failed", failure=failure),)
    if any(_server(pod).state.running is not None for pod in new):
        return (VersionStatus(version=version, phase="Loading"),)
    told = [seen.hints.get(pod.metadata.uid, NOTHING).progress for pod in new if fetching(pod)]
    if told:
        furthest = max((each for each in told if each), key=lambda each: each.bytes_done, default=None)
        return (VersionStatus(version=version, phase="Fetching", progress=furthest),)
    return (VersionStatus(version=version, phase="Pending"),)


def _server(pod: Pod) -> Container:
    found = (each for each in pod.status.container_statuses or () if each.name == SERVER)
    return next(found, Container(name=SERVER))
