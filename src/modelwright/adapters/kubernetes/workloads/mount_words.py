"""What a kubelet says of a volume that it cannot mount, in one line about what the user wrote."""

from __future__ import annotations

import re

from modelwright.adapters.kubernetes.workloads.kinds import PersistentVolume

SHOWN = 500
"""Characters of the kubelet's words."""

_STEP = re.compile(r'^\w+Volume\.\w+ .*?failed for volume "([^"]*)"\s*:\s*', re.DOTALL)
_OUTPUT = re.compile(r".*^Output:\s*", re.DOTALL | re.MULTILINE)
_RPC = re.compile(r"rpc error: code = \w+ desc = ")
_IN_VAIN = "Unable to attach or mount volumes"
_HEALING = ("PVC is not bound", "no relationship found between node")
_OF_THE_POD = frozenset(("push-secret", "docker-config", "registry-ca", "shared", "scratch"))
"""The volumes that are not the model's."""


def heals(message: str) -> bool:
    """Whether it is about a Pod that was sooner at the kubelet than what it stands on: the next try mends it."""
    return any(each in message for each in _HEALING)


def is_summary(message: str) -> bool:
    """Whether it says no more than that the kubelet has waited."""
    return message.startswith(_IN_VAIN)


def cannot_be_mounted(message: str, volume: PersistentVolume | None, node: str) -> str:
    """What cannot be mounted, why, and what to do. `volume` is the one that we made, None for a user's claim."""
    step = _STEP.match(message)
    if step is not None and step[1] in _OF_THE_POD:
        return f"the volume {step[1]} of the build's Pod cannot be mounted on the node {node}: {_reason(message)}"
    what, advice = _about(volume, message, node)
    return f"{what} cannot be mounted on the node {node}: {_reason(message)}; {advice}, and the build goes on by itself"


def _reason(message: str) -> str:
    """The kubelet's words without its own names for things: of a mount program, what that one printed."""
    told = _OUTPUT.sub("", message, count=1) if "Output:" in message else _STEP.sub("", message, count=1)
    text = " ".join(_RPC.sub("", told).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _about(volume: PersistentVolume | None, message: str, node: str) -> tuple[str, str]:
    """What the user wrote, and what to do about it."""
    if "not found in the list of registered CSI drivers" in message:
        what = "the volume" if volume is None or volume.spec.csi is None else _efs(volume.spec.csi.volume_handle)
        return what, f"have an admin install that CSI driver on the node {node}"
    if volume is None:
        return "the volume of its claim", "mend that volume"
    spec = volume.spec
    if spec.local is not None:
        return spec.local.path, "make that folder there"
    if spec.nfs is not None:
        what = f"the NFS export {spec.nfs.server}:{spec.nfs.path}"
        return what, f"let the node {node} mount it (the server's exports, firewalls, the node's NFS client)"
    if spec.csi is not None:
        return _efs(
            spec.csi.volume_handle
        ), f"let the node {node} mount it (its mount targets, access point and network)"
    return "the model's volume", "mend it"


def _efs(handle: str) -> str:
    return f"the EFS volume {handle}"
