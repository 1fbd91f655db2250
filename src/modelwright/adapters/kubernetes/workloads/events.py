"""What the Events of an object say is wrong with it: some faults are told nowhere else."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.resource import EVENTS
from modelwright.adapters.kubernetes.workloads import mount_words
from modelwright.adapters.kubernetes.workloads.kinds import PersistentVolume
from modelwright.ports.workloads import Failure

_LIMIT = 100
_TRY = re.compile(r'^Error creating: (pods "[^"]*" is )?')


class Warned(msgspec.Struct, frozen=True, rename="camel"):
    """A Warning about an object."""

    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None

    @property
    def at(self) -> float:
        at = self.last_timestamp or self.event_time
        return at.timestamp() if at is not None else 0.0


_DECODER = msgspec.json.Decoder(Warned)


async def job_failure(client: KubernetesClient, namespace: str, uid: str) -> Failure | None:
    """Why a Job makes no Pod. Raises what the client raises."""
    for event in await warnings(client, namespace, uid):
        if event.reason == "FailedCreate":
            return pod_refused(namespace, event.message)
    return None


async def pod_failure(
    client: KubernetesClient, namespace: str, uid: str, *, volume: PersistentVolume | None, node: str
) -> Failure | None:
    """Why no container of a Pod that has a node is made. `volume` is the one that we made for it, if we did.

    Raises what the client raises.
    """
    found = await warnings(client, namespace, uid)
    mounts = [event.message for event in found if event.reason in ("FailedMount", "FailedAttachVolume")]
    lasting = [said for said in mounts if not mount_words.heals(said)]
    # The kubelet also sums up that it has waited in vain, without saying for what.
    for said in sorted(lasting, key=mount_words.is_summary):
        message = mount_words.cannot_be_mounted(said, volume, node)
        return Failure(reason="MountFailed", message=message, retryable=True)
    for event in found:
        if event.reason == "FailedCreatePodSandBox":
            message = f"the node cannot begin the Pod: {event.message}"
            return Failure(reason="PodSandboxFailed", message=message, retryable=True)
    return None


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
    # Each try has a name of its own, and all say the same.
    text = f"no Pod can be made for the build: {_TRY.sub('', message)}"
    return Failure(reason="PodNotCreated", message=text, retryable=True)


async def warnings(client: KubernetesClient, namespace: str, uid: str) -> list[Warned]:
    """The Warnings about this object, newest first."""
    where = Selection(namespace=namespace, fields=f"involvedObject.uid={uid},type=Warning")
    found: list[Warned] = []
    async for page in client.pages(EVENTS, where, limit=_LIMIT):
        found += map(_DECODER.decode, page.items)
    return sorted(found, key=lambda event: event.at, reverse=True)
