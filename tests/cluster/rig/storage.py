"""What a cluster's volumes are mounted from: an NFS server on the host's address, and EFS's driver on each node."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster.rig import node, processes, state
from tests.cluster.rig.kubernetes import Kubernetes
from tests.cluster.rig.names import NODES, Names
from tests.cluster.storage import csi, mount_helper, nfs

EXPORT = "/models"
SERVER = "nfs"
"""The server's name among the cluster's programs."""
DRIVER = "/opt/node/csi"
RECORD = "/opt/node/csi.jsonl"


def driver(on: str) -> str:
    """The name of a node's CSI plug-in among the cluster's programs."""
    return f"csi-{on}"


def start_server(cluster: Names, folder: Path) -> state.StorageState:
    """Start the NFS server; the folders that it serves are empty."""
    exports = {EXPORT: folder / "models", csi.EXPORT: folder / "efs"}
    for export in exports.values():
        export.mkdir(parents=True)
    processes.start(cluster.name, SERVER, nfs.command(exports, cluster.gateway, folder / "server"))
    return state.StorageState(
        server=cluster.gateway, exports={path: str(export) for path, export in exports.items()}, efs=str(folder / "efs")
    )


def wait(cluster: Names, folder: Path) -> None:
    """Wait until the NFS server answers."""
    processes.wait(cluster.name, SERVER, lambda: nfs.is_ready(cluster.gateway, folder / "server"))


def equip(cluster: Names, on: str) -> None:
    """Give a node, which has been made, mount.nfs and the CSI plug-in, and start that; its kubelet may come later."""
    root = node.root(cluster.name, on)
    mount_helper.place(root / "sbin")
    shutil.copy(csi.build(), root / DRIVER.lstrip("/"))
    command = csi.command(DRIVER, on, cluster.gateway, RECORD)
    processes.start(cluster.name, driver(on), [*node.enter(cluster.name, on), *command])


def register(kubernetes: Kubernetes) -> None:
    """Tell the cluster of the driver."""
    kubernetes.run("apply", "--server-side", "-f", str(csi.OBJECT))


def publications(cluster: str) -> list[csi.Publication]:
    """What the driver was asked for on any node so far."""
    records = [node.root(cluster, name) / RECORD.lstrip("/") for name in NODES]
    return [publication for record in records for publication in csi.publications(record)]
