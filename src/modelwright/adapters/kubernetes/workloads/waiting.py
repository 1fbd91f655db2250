"""What a Pod that does not run waits for."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from modelwright.adapters.kubernetes.workloads.kinds import Container, PersistentVolumeClaim, Pod, condition
from modelwright.adapters.kubernetes.workloads.render_kaniko import KANIKO
from modelwright.ports.workloads import Failure

SCHEDULED_AFTER = timedelta(seconds=10)
BOUND_AFTER = timedelta(seconds=30)
"""How long it is in order that a Pod has no node, and a claim no volume: said at once, it would be said of each Pod."""

OWN_BOUND_AFTER = timedelta(seconds=60)
"""The same of a claim of ours, whose volume is there: of a thousand at once the volume binder takes its time."""

BOUND = "Bound"
"""The phase of a claim that has its volume."""

IMAGE_FAULTS = frozenset(
    ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
)
CONFIG_FAULTS = frozenset(("CreateContainerConfigError", "CreateContainerError", "RunContainerError"))
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_AGAIN = re.compile(r'^Back-off pulling image "[^"]*"(: ErrImagePull)?:? ?')
_RPC = re.compile(r"rpc error: code = \w+ desc = ")


def started(pod: Pod) -> bool:
    """Whether any of its containers runs, or has."""
    return any(each.state.running is not None or each.state.terminated is not None for each in pod.status.containers)


def failure(pod: Pod, now: datetime) -> Failure | None:
    """What keeps it from running, by what its own status says."""
    for container in pod.status.containers:
        fault = _of_container(container)
        if fault is not None:
            return fault
    unscheduled = condition(pod.status.conditions, "PodScheduled", "False")
    if unscheduled is None or unscheduled.reason != "Unschedulable":
        return None
    if "unbound immediate PersistentVolumeClaims" in unscheduled.message:
        return _without_volume(unscheduled.message, now - (_told_at(pod) or now))
    return _unscheduled(unscheduled.message, now - (pod.metadata.creation_timestamp or now))


def without_wrapping(message: str) -> str:
    """The fault of an image or container alone. Kubernetes tells it in two ways by turns: once when it has tried, once
    while it waits to try again."""
    return _RPC.sub("", _AGAIN.sub("", message))


def unbound(claim: PersistentVolumeClaim | None, now: datetime) -> Failure | None:
    """What keeps a build from a Job at all: its claim has no volume."""
    if claim is None or claim.metadata.deletion_timestamp is not None or claim.status.phase == BOUND:
        return None
    if now - (claim.metadata.creation_timestamp or now) < OWN_BOUND_AFTER:
        return None
    where = f"-n {claim.metadata.namespace} {claim.metadata.name}"
    text = (
        f"its claim {claim.metadata.name} has not been bound to its volume (it is {claim.status.phase or 'new'}): "
        f"`kubectl describe pvc {where}` says why; the build begins by itself once it is bound"
    )
    return Failure(reason="VolumeNotBound", message=text, retryable=True)


def _of_container(container: Container) -> Failure | None:
    waiting = container.state.waiting
    if waiting is None:
        return None
    if waiting.reason in IMAGE_FAULTS:
        text = without_wrapping(waiting.message) or "it was tried in vain"
        setting = "build.kanikoImage" if container.name == KANIKO else "build.image"
        message = (
            f"the image of the container {container.name} cannot be pulled: {text}; an admin says by the Helm values "
            f"{setting} and build.imagePullSecrets which one it is, and with which secrets of this namespace"
        )
        return Failure(reason="ImagePullFailed", message=message, retryable=True)
    if waiting.reason in CONFIG_FAULTS:
        message = f"the container {container.name} cannot be made: {_RPC.sub('', waiting.message)}"
        return Failure(reason="ContainerNotStarted", message=message, retryable=True)
    return None


def _told_at(pod: Pod) -> datetime | None:
    """When the scheduler came to say what it says. A claim that is made late has no volume for a moment: that is no
    news, however long the Pod has waited for the claim itself."""
    told = (each.time for each in pod.metadata.managed_fields if each.subresource == "status")
    return max(filter(None, told), default=pod.metadata.creation_timestamp)


def _without_volume(message: str, since: timedelta) -> Failure | None:
    if since < BOUND_AFTER:
        return None
    text = f"its claim has no volume yet ({message}): `kubectl describe pvc` says why"
    return Failure(reason="VolumeNotBound", message=text, retryable=True)


def _unscheduled(message: str, since: timedelta) -> Failure | None:
    if since < SCHEDULED_AFTER:
        return None
    missing = _CLAIM.search(message)
    if missing is not None:
        text = f"there is no PersistentVolumeClaim {missing[1]} in this namespace: make it, or name another"
        return Failure(reason="ClaimNotFound", message=text, retryable=True)
    return Failure(reason="Unschedulable", message=f"no node can run the build: {message}", retryable=True)
