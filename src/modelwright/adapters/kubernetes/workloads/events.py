"""What the Events of an object say is wrong with it: some faults are told nowhere else."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.resource import EVENTS
from modelwright.ports.workloads import Failure

_LIMIT = 100
_PASSING = ("PVC is not bound", "no relationship found between node")
"""What a node says of a claim for a moment, when it is asked to mount it just after it was bound: it tries again."""
_MOUNT_FAILED = re.compile(r'^MountVolume\.\S+( initialization)? failed for volume "[^"]*"\s*:\s*')
_RPC = re.compile(r"^rpc error: code = \w+ desc = ")


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def at(self) -> float:
        at = self.last_timestamp or self.event_time
        return at.timestamp() if at is not None else 0.0


_DECODER = msgspec.json.Decoder(_Event)


async def job_failure(client: KubernetesClient, namespace: str, uid: str) -> Failure | None:
    """Why a Job makes no Pod. Raises what the client raises."""
    for event in await _warnings(client, namespace, uid):
        if event.reason == "FailedCreate":
            return pod_refused(namespace, event.message)
    return None


async def pod_failure(client: KubernetesClient, namespace: str, uid: str) -> Failure | None:
    """Why no container of a Pod that has a node is made. Raises what the client raises."""
    warnings = await _warnings(client, namespace, uid)
    mounts = [event for event in warnings if event.reason in ("FailedMount", "FailedAttachVolume")]
    lasting = [event for event in mounts if not any(words in event.message for words in _PASSING)]
    # The kubelet also sums up that it has waited in vain, without saying for what.
    for event in sorted(lasting, key=lambda event: event.message.startswith("Unable to attach or mount")):
        return Failure(reason="MountFailed", message=mount_failed(event.message), retryable=True)
    for event in warnings:
        if event.reason == "FailedCreatePodSandBox":
            message = f"the node cannot begin the Pod: {event.message}"
            return Failure(reason="PodSandboxFailed", message=message, retryable=True)
    return None


def mount_failed(message: str) -> str:
    """Why a volume cannot be mounted, without the names that the node and we ourselves have for it."""
    _, _, output = message.rpartition("\nOutput: ")  # of mount(8)
    why = _RPC.sub("", _MOUNT_FAILED.sub("", output))
    return (
        f"the node cannot mount the model's storage: {' '.join(why.split())}: have that mended, or make a ModelVersion "
        "with the right storage; this one goes on by itself once it can be mounted"
    )


def pod_refused(namespace: str, message: str) -> Failure:
    """Why the API server does not take a Pod of a Job."""
    _, _, violated = message.partition("violates PodSecurity ")
    if violated:
        text = (
            f"the namespace {namespace} does not admit the Pod of this build, which violates PodSecurity {violated}. "
            f"The builder native passes `restricted`; for kaniko: kubectl label --overwrite ns {namespace} "
            "pod-security.kubernetes.io/enforce=baseline"
        )
        return Failure(reason="PodSecurityForbids", message=text, retryable=True)
    return Failure(reason="PodNotCreated", message=f"no Pod can be made for the build: {message}", retryable=True)


async def _warnings(client: KubernetesClient, namespace: str, uid: str) -> list[_Event]:
    """The Warnings about this object, newest first."""
    where = Selection(namespace=namespace, fields=f"involvedObject.uid={uid},type=Warning")
    found: list[_Event] = []
    async for page in client.pages(EVENTS, where, limit=_LIMIT):
        found += map(_DECODER.decode, page.items)
    return sorted(found, key=lambda event: event.at, reverse=True)
