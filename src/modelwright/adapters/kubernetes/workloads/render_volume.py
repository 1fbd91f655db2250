"""The PersistentVolume and the claim through which a build reads a model, as objects."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads.labels import metadata, volume_name
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Claim, Efs, HostPath, Nfs, Storage, Task

EFS_DRIVER = "efs.csi.aws.com"
HOSTNAME = "kubernetes.io/hostname"
CAPACITY = "1Gi"
"""Both must name one, and it limits nothing: what is there is there."""


def needs_volume(source: Storage) -> bool:
    """Whether it is reached through a volume of our own making: a user's claim is not."""
    return not isinstance(source, Claim)


def volume(task: Task, source: Storage, hostname: str = "") -> JSON:
    """The PersistentVolume: for its claim alone, and Retain, since the files are the user's.

    `hostname` is the label kubernetes.io/hostname of the node that has a HostPath.
    """
    owner = task.owner
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": owner.namespace, "name": task.name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(owner, volume_name(owner.namespace, task.name), namespaced=False),
        "spec": {
            "storageClassName": "",
            "capacity": {"storage": CAPACITY},
            "accessModes": _access_modes(source),
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": claim,
            **_where(source, hostname),
        },
    }


def claim(task: Task, source: Storage) -> JSON:
    """The claim: for that volume alone."""
    owner = task.owner
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(owner, task.name),
        "spec": {
            "storageClassName": "",
            "volumeName": volume_name(owner.namespace, task.name),
            "accessModes": _access_modes(source),
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": CAPACITY}},
        },
    }


def _access_modes(source: Storage) -> list[str]:
    # The EFS driver refuses to mount a volume of any other mode; what makes it read-only there is `readOnly`.
    return ["ReadWriteMany"] if isinstance(source, Efs) else ["ReadOnlyMany"]


def _where(source: Storage, hostname: str) -> JSON:
    match source:
        case HostPath():
            return {"local": {"path": source.path}, "nodeAffinity": {"required": _on(hostname)}}
        case Nfs():
            return {"nfs": {"server": source.server, "path": source.path, "readOnly": True}}
        case Efs():
            handle = {"driver": EFS_DRIVER, "volumeHandle": source.volume_handle, "readOnly": True}
            return {"csi": {**handle, "volumeAttributes": source.attributes} if source.attributes else handle}
    raise Invalid(f"a volume cannot be made for storage of the kind {type(source).__name__}")


def _on(hostname: str) -> JSON:
    # A volume's affinity is compared with labels alone: a node's name cannot be named here.
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [hostname]}]}]}
