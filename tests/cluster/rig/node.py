"""A node: namespaces and a root file system of its own, and in them containerd, kubelet and kube-proxy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.rig import cgroups, health, names, network, node_config, processes, state
from tests.cluster.rig.control_plane import ControlPlane
from tests.cluster.rig.names import ALL_NODES, Names

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


def state_of(cluster: Names, node: str) -> state.NodeState:
    """Where the node is."""
    return state.NodeState(node, cluster.node_address(ALL_NODES.index(node)), str(root(cluster.name, node)))


def make(cluster: Names, node: str, plane: ControlPlane, registries: Sequence[state.RegistryState]) -> None:
    """Make the node's file system and network; its programs are started by `start`."""
    folder, index = root(cluster.name, node), ALL_NODES.index(node)
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
    """Start those of the node's programs that do not run, in their order. Raises StartError if containerd is not ready
    in time."""
    for program, command in _programs(cluster, node).items():
        if not is_running(cluster.name, program):
            processes.start(cluster.name, program, [*enter(cluster.name, node), *command])
            if program.startswith("containerd"):
                health.wait(cluster, program)


def stop(cluster: Names, node: str) -> None:
    """Kill all that runs on the node, its containers and those who could start them again before all others."""
    for program in reversed(_programs(cluster, node)):
        if is_running(cluster.name, program):
            processes.stop(cluster.name, program, kill=True)
    cgroups.end(lambda: cgroups.node_processes(cluster.name, node) | _shims(cluster.name, node))


def is_running(cluster: str, program: str) -> bool:
    """False also for a program that was never started."""
    return program in processes.started(cluster) and processes.is_running(cluster, program)


def _programs(cluster: Names, node: str) -> dict[str, list[str]]:
    found = {
        f"containerd-{node}": ["containerd", f"--config=/{HOME}/containerd.toml"],
        f"kubelet-{node}": _kubelet(cluster, node),
        f"kube-proxy-{node}": ["kube-proxy", f"--config=/{HOME}/kube-proxy.yaml"],
    }
    if node == names.BARE_NODE:
        found.pop(f"kube-proxy-{node}")
    return found


def _shims(cluster: str, node: str) -> set[int]:
    """The processes that containerd has left beside the containers: all that see the node's mounts, but for those that
    the cluster was asked to start."""
    asked = {processes.pid_of(cluster, name) for name in processes.started(cluster)}
    mounts = _mounts(processes.pid_of(cluster, node))
    return {pid for pid in cgroups.processes(cluster) - asked if _mounts(pid) == mounts}


def _mounts(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:  # it has ended
        return f"none of {pid}"


def _kubelet(cluster: Names, node: str) -> list[str]:
    address = cluster.node_address(ALL_NODES.index(node))
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
