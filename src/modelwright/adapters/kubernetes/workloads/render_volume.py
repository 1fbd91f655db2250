"""The PersistentVolume and the claim through which a build reads a model, as objects."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.workloads.labels import TASK, labels, metadata, volume_name
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Claim, Efs, HostPath, Nfs, Storage, Task

EFS_DRIVER = "efs.csi.aws.com"
HOSTNAME = "kubernetes.io/hostname"
CAPACITY = "1Gi"
"""Both must name one, and it limits nothing: what is there is there."""


def needs_volume(source: Storage) -> bool:
    """Whether it is reached through a volume of our own making: a user's claim is not."""
    return not isinstance(source, Claim)


def claim(task: Task, source: Storage) -> JSON:
    """The claim, which is made first: by its labels it takes that volume alone.

    It does not name the volume. The volume binder would then write to the volume from two sides, one of the two would
    lose, and the claim would wait for the binder's next resync (15 s); a claim without a volume's name it looks at
    again whenever the volume changes. https://github.com/kubernetes/kubernetes, pv_controller.go, syncVolume
    """
    owner = task.owner
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(owner, task.name),
        "spec": {
            "storageClassName": "",
            "selector": {"matchLabels": _labels(task)},
            "accessModes": _access_modes(source),
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": CAPACITY}},
        },
    }


def volume(task: Task, source: Storage, claim_uid: str, hostname: str = "") -> JSON:
    """The PersistentVolume: for that very claim alone, and Retain, since the files are the user's.

    `hostname` is the label kubernetes.io/hostname of the node that has a HostPath.
    """
    owner = task.owner
    made = metadata(owner, volume_name(owner.namespace, task.name), namespaced=False)
    made["labels"] = _labels(task)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": made,
        "spec": {
            "storageClassName": "",
            "capacity": {"storage": CAPACITY},
            "accessModes": _access_modes(source),
            "volumeMode": "Filesystem",
            "persistentVolumeReclaimPolicy": "Retain",
            # What says `readOnly` is a Pod, and another Pod of the namespace may mount the same claim.
            "mountOptions": ["ro"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": owner.namespace,
                "name": task.name,
                "uid": claim_uid,
            },
            **_where(source, hostname),
        },
    }


def _labels(task: Task) -> dict[str, str]:
    """Of the volume, and of no other."""
    return {**labels(task.owner), TASK: task.name}


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
