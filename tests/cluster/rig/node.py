"""A node: namespaces and a root file system of its own, and in them containerd, kubelet and kube-proxy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.rig import health, network, node_config, processes, state
from tests.cluster.rig.control_plane import ControlPlane
from tests.cluster.rig.names import NODES, Names

ROOT_SCRIPT = Path(__file__).with_name("node_root.sh")
HOME = "opt/node"
PATH = "/opt/kubernetes:/usr/sbin:/usr/bin:/sbin"
MADE = ("usr", "etc", "dev", "proc", "sys", "run", "tmp", "sbin", "srv", "mnt", "root", "opt/kubernetes")
VAR = ("var/lib/kubelet", "var/lib/containerd", "var/log", "var/tmp")


def root(cluster: str, node: str) -> Path:
    """The folder that is the node's root file system, as the host sees it: without what the node mounts there."""
    return state.folder(cluster) / "nodes" / node


def enter(cluster: str, node: str) -> list[str]:
    """The beginning of a command that runs on the node: in its network and its file system."""
    holder = processes.pid_of(cluster, node)
    return ["nsenter", f"--target={holder}", "--uts", "--net", "--mount", "env", *_environment()]


def make(cluster: Names, node: str, index: int, plane: ControlPlane, registries: Sequence[state.RegistryState]) -> None:
    """Make the node's file system and network; its programs are started by `start`."""
    folder = root(cluster.name, node)
    for name in (*MADE, *VAR):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "var/run").symlink_to("/run")
    _link_like_the_host(folder)
    node_config.write(folder / HOME, cluster, node, index, plane, registries)
    holder = processes.start(
        cluster.name,
        node,
        [
            "unshare",
            "--uts",
            "--net",
            "--mount",
            "--propagation=private",
            "sh",
            ROOT_SCRIPT,
            node,
            folder,
            plane.programs,
        ],
    )
    processes.wait(cluster.name, node, lambda: network.runs(holder, "sleep"))
    network.connect_node(cluster, node, index, holder)


def start(cluster: Names, node: str) -> None:
    """Start the node's programs, in their order. Raises StartError if containerd is not ready in time."""
    inside = enter(cluster.name, node)
    processes.start(cluster.name, f"containerd-{node}", [*inside, "containerd", f"--config=/{HOME}/containerd.toml"])
    health.wait(cluster, f"containerd-{node}")
    processes.start(cluster.name, f"kubelet-{node}", [*inside, *_kubelet(cluster, node)])
    processes.start(cluster.name, f"kube-proxy-{node}", [*inside, "kube-proxy", f"--config=/{HOME}/kube-proxy.yaml"])


def _kubelet(cluster: Names, node: str) -> list[str]:
    address = cluster.node_address(NODES.index(node))
    files = [f"--config=/{HOME}/kubelet.yaml", f"--kubeconfig=/{HOME}/kubelet.conf"]
    return ["kubelet", *files, f"--hostname-override={node}", f"--node-ip={address}"]


def _environment() -> list[str]:
    return [f"PATH={PATH}", "TMPDIR=/var/tmp", "HOME=/root"]


def _link_like_the_host(folder: Path) -> None:
    """Give the node the host's /bin, /lib and so on, which are links into /usr."""
    for name in ("bin", "lib", "lib32", "lib64", "libx32"):
        host = Path("/", name)
        if host.is_symlink():
            (folder / name).symlink_to(host.readlink())
