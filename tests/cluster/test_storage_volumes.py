"""Pods read what the cluster's NFS server has, through volumes of NFS and of EFS's driver."""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.rig import storage
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.manifests import container, pod
from tests.cluster.rig.waiting import until
from tests.cluster.storage import csi, nfs

MODEL = "/volume/model.onnx"
FILE_SYSTEM = "fs-e8a95a42"
ACCESS_POINT = "fsap-19f752f0068c22464"
Volume = Callable[[dict[str, Any]], str]


@pytest.fixture
def volume(cluster: Cluster, namespace: str) -> Iterator[Volume]:
    """Make a PersistentVolume of a source, bound to a claim of its own in the test's namespace; the claim's name."""
    made: list[str] = []

    def make(source: dict[str, Any]) -> str:
        name = f"t-{secrets.token_hex(4)}"
        common = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
        spec = {**common, "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain", **source}
        reference = {"claimRef": {"namespace": namespace, "name": name}}
        claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        cluster.apply(
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**spec, **reference}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim},
            namespace=namespace,
        )
        made.append(name)
        return name

    yield make
    for name in made:
        cluster.run("delete", "pvc", name, "--namespace", namespace, "--wait=false")
        cluster.run("delete", "pv", name, "--wait=false")


@pytest.fixture
def models(cluster: Cluster) -> Path:
    """A folder of the NFS server that no other test has."""
    folder = Path(cluster.state.storage.exports[storage.EXPORT], secrets.token_hex(4))
    folder.mkdir()
    return folder


def nfs_source(cluster: Cluster, folder: Path, **more: Any) -> dict[str, Any]:
    path = f"{storage.EXPORT}/{folder.name}"
    return {"nfs": {"server": cluster.state.storage.server, "path": path, "readOnly": True}, **more}


def efs_source(handle: str, **attributes: str) -> dict[str, Any]:
    return {"csi": {"driver": csi.DRIVER, "volumeHandle": handle, "readOnly": True, "volumeAttributes": attributes}}


def start(cluster: Cluster, namespace: str, claim: str, *command: str) -> str:
    """Start a Pod that reads the claim's volume; its name, which is the claim's."""
    mount = {"name": "volume", "mountPath": "/volume", "readOnly": True}
    reader = container(cluster.registry, *command, volumeMounts=[mount])
    volume = {"name": "volume", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
    cluster.apply(pod(claim, reader, volumes=[volume], restartPolicy="Never"), namespace=namespace)
    return claim


def phase(cluster: Cluster, namespace: str, name: str) -> str:
    return cluster.run("get", "pod", name, "--namespace", namespace, "-o", "jsonpath={.status.phase}")


def read(cluster: Cluster, namespace: str, claim: str, *command: str) -> str:
    """Run a command in a Pod that reads the claim's volume; what it wrote, once it has ended, and well."""
    name = start(cluster, namespace, claim, *command)
    until(lambda: phase(cluster, namespace, name) in {"Succeeded", "Failed"}, f"the Pod {name} to end", 120)
    log = cluster.run("logs", name, "--namespace", namespace)
    assert phase(cluster, namespace, name) == "Succeeded", log
    return log


def mounts(cluster: Cluster) -> list[str]:
    """What of the NFS server is mounted on any node."""
    lines = "".join(cluster.on_node(node.name, "cat", "/proc/mounts") for node in cluster.nodes).splitlines()
    return [line for line in lines if line.startswith(cluster.state.storage.server)]


def test_a_pod_reads_a_volume_of_nfs(cluster: Cluster, namespace: str, volume: Volume, models: Path) -> None:
    content = random.Random(2).randbytes(32 << 20)
    (models / "model.onnx").write_bytes(content)
    claim = volume(nfs_source(cluster, models))
    printed = read(cluster, namespace, claim, "sha256sum", MODEL)
    assert printed.split()[0] == hashlib.sha256(content).hexdigest()


def test_a_pod_writes_nothing_into_a_volume_that_it_reads(
    cluster: Cluster, namespace: str, volume: Volume, models: Path
) -> None:
    models.chmod(0o777)
    claim = volume(nfs_source(cluster, models))
    assert "Read-only file system" in read(cluster, namespace, claim, "sh", "-c", "touch /volume/new 2>&1 || true")
    assert list(models.iterdir()) == []


def test_a_pod_reads_no_file_that_its_user_may_not(
    cluster: Cluster, namespace: str, volume: Volume, models: Path
) -> None:
    (models / "model.onnx").write_text("secret")
    (models / "model.onnx").chmod(0o600)
    claim = volume(nfs_source(cluster, models))
    assert "Permission denied" in read(cluster, namespace, claim, "sh", "-c", f"cat {MODEL} 2>&1 || true")


def test_a_volume_whose_folder_is_missing_is_an_event_of_the_pod(
    cluster: Cluster, namespace: str, volume: Volume, models: Path
) -> None:
    models.rmdir()
    name = start(cluster, namespace, volume(nfs_source(cluster, models)), "cat", MODEL)
    selector = f"--field-selector=involvedObject.name={name},reason=FailedMount"
    until(
        lambda: "mount.nfs" in cluster.run("get", "events", "--namespace", namespace, selector, "-o", "yaml"), "Event"
    )
    cluster.run("delete", "pod", name, "--namespace", namespace)


@pytest.mark.parametrize(
    ("handle", "folder"),
    [
        (FILE_SYSTEM, FILE_SYSTEM),
        (f"{FILE_SYSTEM}:/my/subpath", f"{FILE_SYSTEM}/my/subpath"),
        (f"{FILE_SYSTEM}::{ACCESS_POINT}", ACCESS_POINT),
        (f"{FILE_SYSTEM}:/my/subpath:{ACCESS_POINT}", f"{ACCESS_POINT}/my/subpath"),
    ],
)
def test_a_pod_reads_a_volume_of_efs(
    cluster: Cluster, namespace: str, volume: Volume, handle: str, folder: str
) -> None:
    files = Path(cluster.state.storage.efs, folder)
    files.mkdir(parents=True, exist_ok=True)
    (files / "model.onnx").write_text(folder)
    claim = volume(efs_source(handle, encryptInTransit="true"))
    assert read(cluster, namespace, claim, "cat", MODEL) == folder
    asked = [each for each in storage.publications(cluster.name) if f"/{claim}/" in each.target_path][-1]
    assert (asked.volume_handle, asked.volume_context) == (handle, {"encryptInTransit": "true"})
    assert (asked.read_only, asked.error) == (True, "")


@pytest.mark.parametrize(
    ("handle", "attributes", "message"),
    [
        ("e8a95a42", {}, "expected a file system ID of the form 'fs-...'"),
        (f"{FILE_SYSTEM}::19f752f0068c22464", {}, "expected the form 'fsap-...'"),
        (FILE_SYSTEM, {"colour": "blue"}, "volume context property colour not supported"),
        ("fs-00000000", {}, "could not mount"),
    ],
)
def test_a_volume_that_efs_does_not_have_is_an_event_of_the_pod(
    cluster: Cluster, namespace: str, volume: Volume, handle: str, attributes: dict[str, str], message: str
) -> None:
    name = start(cluster, namespace, volume(efs_source(handle, **attributes)), "cat", MODEL)
    selector = f"--field-selector=involvedObject.name={name},reason=FailedMount"
    path = "jsonpath={.items[*].message}"
    until(lambda: message in cluster.run("get", "events", "--namespace", namespace, selector, "-o", path), "the Event")
    cluster.run("delete", "pod", name, "--namespace", namespace)


def test_nothing_stays_mounted_when_the_pods_are_gone(
    cluster: Cluster, namespace: str, volume: Volume, models: Path
) -> None:
    (models / "model.onnx").write_text("model")
    claim = volume(nfs_source(cluster, models))
    assert read(cluster, namespace, claim, "cat", MODEL) == "model"
    cluster.run("delete", "pod", claim, "--namespace", namespace)
    until(lambda: not [mount for mount in mounts(cluster) if claim in mount], "the volume is unmounted")


def test_a_server_that_is_gone_is_an_error_in_the_pod_and_one_that_returns_is_read_again(
    cluster: Cluster, namespace: str, volume: Volume, models: Path
) -> None:
    (models / "model.onnx").write_text("model")
    claim = volume(nfs_source(cluster, models, mountOptions=["timeo=5", "actimeo=0"]))
    loop = f"while true; do cat {MODEL} 2>&1 || true; echo; sleep 0.2; done"
    name = start(cluster, namespace, claim, "sh", "-c", loop)
    until(lambda: lines(cluster, namespace, name)[-1:] == ["model"], "the Pod reads")
    cluster.stop(storage.SERVER, kill=True)
    try:
        until(lambda: "Input/output error" in "".join(lines(cluster, namespace, name)[-1:]), "an error")
    finally:
        cluster.start(storage.SERVER)
    server = Path(cluster.state.folder, "nfs/server")
    until(lambda: nfs.is_ready(cluster.state.storage.server, server), "the NFS server is back")
    until(lambda: lines(cluster, namespace, name)[-1:] == ["model"], "the Pod reads again")
    cluster.run("delete", "pod", name, "--namespace", namespace)


def lines(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """What the Pod has written of late, without empty lines; nothing before it runs."""
    written = cluster.run("logs", name, "--namespace", namespace, "--tail=4", check=False)
    return [line for line in written.splitlines() if line]
