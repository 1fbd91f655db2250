"""What children are called, and how each says whose it is."""

from __future__ import annotations

import hashlib

from modelwright.adapters.kubernetes.client import JSON, Selection
from modelwright.adapters.kubernetes.workloads.kinds import Annotations, Child, Object, PersistentVolume, Pod
from modelwright.ports.workloads import Owner

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "modelwright"
COMPONENT = "app.kubernetes.io/component"
OWNER_UID = "modelwright.dev/owner-uid"
TASK = "modelwright.dev/task"
OURS = Selection(labels=f"{MANAGED_BY}={MANAGER}")


def volume_name(namespace: str, name: str) -> str:
    """PersistentVolumes share one space of names: the name is a hash of what the claim is called."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()
    return f"modelwright-{digest[:32]}"


def labels(owner: Owner) -> dict[str, str]:
    """The same on Job, Pod, claim and volume."""
    return {MANAGED_BY: MANAGER, COMPONENT: "build", OWNER_UID: owner.uid}


def metadata(owner: Owner, name: str, *, namespaced: bool = True) -> JSON:
    """A child's metadata. What is in no namespace can have no owner that is in one: labels alone say whose it is."""
    made: JSON = {"name": name, "labels": labels(owner), "annotations": owner_annotations(owner)}
    if namespaced:
        made["namespace"] = owner.namespace
        made["ownerReferences"] = [owner_reference(owner)]
    return made


def owner_reference(owner: Owner) -> JSON:
    """By which the garbage collector knows whose a child is."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


def owner_annotations(owner: Owner) -> dict[str, str]:
    return {
        "modelwright.dev/owner-api-version": owner.api_version,
        "modelwright.dev/owner-kind": owner.kind,
        "modelwright.dev/owner-namespace": owner.namespace,
        "modelwright.dev/owner-name": owner.name,
    }


def owner_of(child: Object) -> Owner:
    """Whom a child says that it is for: somebody in its own namespace, whatever it says."""
    said: Annotations = child.metadata.annotations
    return Owner(said.api_version, said.kind, namespace_of(child), said.name, child.metadata.labels.owner_uid)


def namespace_of(child: Object) -> str:
    """The namespace that it is for: of a volume, the claim's."""
    return child.spec.claim_ref.namespace if isinstance(child, PersistentVolume) else child.metadata.namespace


def task_of(child: Child) -> str:
    """The name of the Task that a child belongs to."""
    if isinstance(child, Pod):
        return child.metadata.labels.job_name
    return child.spec.claim_ref.name if isinstance(child, PersistentVolume) else child.metadata.name
