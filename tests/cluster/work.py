"""Work for an installed operator: a version that it builds, one that it cannot, and what it says of the other kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster.rig.cluster import Cluster

NFS = {"nfs": {"server": "nfs.example", "path": "/models"}}
TRAINING = {"modelName": "m", "deployToLayer": "cloud", "frameworkType": "onnx", "command": ["train"], "imageRepo": "m"}
NOT_RUN_HERE = (("sedna.io", "TrainingModel", {**TRAINING, "storage": NFS}),)


def built(cluster: Cluster, name: str, namespace: str = "default") -> dict[str, Any]:
    """Build a version from a folder of a node; the object when it is ready."""
    folder = Path(cluster.nodes[0].root, "models", namespace, name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.bin").write_bytes(name.encode())
    cluster.apply(version_on_node(cluster, name, f"/models/{namespace}/{name}"), namespace=namespace)
    wait = ("wait", "--for=condition=Ready", "--timeout=120s", f"modelversion/{name}", "--namespace", namespace)
    cluster.run(*wait)
    return version(cluster, name, namespace)


def version_on_node(cluster: Cluster, name: str, path: str) -> dict[str, Any]:
    """A ModelVersion of a folder of the first node."""
    storage = {"localStorage": {"path": path, "nodeName": cluster.nodes[0].name}}
    spec = {"modelName": "installed", "createdBy": "user1", "imageRepo": "modelhub/installed", "storage": storage}
    return made("model.kubedl.io", "ModelVersion", name, spec)


def version(cluster: Cluster, name: str, namespace: str = "default") -> dict[str, Any]:
    """The ModelVersion as it is."""
    return cluster.get("modelversions.model.kubedl.io", name, "--namespace", namespace)


def said_of_kinds_not_run_here(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Make one of each; the reason that is said of each kind, once something is."""
    cluster.apply(*(made(group, kind, "mine", spec) for group, kind, spec in NOT_RUN_HERE), namespace=namespace)
    return {kind: _reason(cluster, f"{kind.lower()}/mine", namespace) for _, kind, _ in NOT_RUN_HERE}


def _reason(cluster: Cluster, name: str, namespace: str) -> str:
    cluster.run("wait", "--for=condition=Stalled", "--timeout=60s", name, "--namespace", namespace)
    path = "jsonpath={.status.conditions[?(@.type=='Stalled')].reason}"
    return cluster.run("get", name, "--namespace", namespace, "-o", path)


def made(group: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of ours."""
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def claim_of_an_admin(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    """A volume of the first node with a model in it, and a claim for it, as an admin makes them for users."""
    node = cluster.nodes[0]
    folder = Path(node.root, "claims", namespace, name)
    folder.mkdir(parents=True)
    (folder / "weights.bin").write_bytes(name.encode())
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
    volume = {
        "storageClassName": "",
        "capacity": size,
        "accessModes": modes,
        "claimRef": {"namespace": namespace, "name": name},
        "local": {"path": f"/claims/{namespace}/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    claim = {"storageClassName": "", "volumeName": name, "accessModes": modes, "resources": {"requests": size}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim},
    ]
