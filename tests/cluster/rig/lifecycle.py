"""Starting a cluster, and removing every trace of it, whatever state it was left in."""

from __future__ import annotations

import fcntl
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.contract.pki import Authority

from tests.cluster.rig import cgroups, control_plane, images, names, network, node, processes, registries, state
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.control_plane import ControlPlane
from tests.cluster.rig.names import NODES, Names


def up(name: str) -> Cluster:
    """Start a cluster and wait until its nodes are ready; one of that name that was there before goes first."""
    names.check_name(name)
    down(name)
    with _planning():
        cluster = Names(name=name, number=_free_number())
        state.folder(name).mkdir(parents=True, mode=0o700)
        cgroups.create(name, NODES)
        network.make_switch(cluster)
    return _start(cluster)


@contextmanager
def running_cluster(name: str) -> Iterator[Cluster]:
    """Start a cluster, and remove every trace of it afterwards."""
    try:
        yield up(name)
    finally:
        down(name)


def down(name: str) -> None:
    """Remove all of a cluster. Everything is found by the cluster's name, so half of one is removed as well."""
    names.check_name(name)
    cgroups.kill(name)
    network.remove(name)
    cgroups.remove(name)
    if state.folder(name).exists():
        shutil.rmtree(state.folder(name))


def _start(cluster: Names) -> Cluster:
    folder = state.folder(cluster.name)
    plane_folder = folder / "control-plane"
    plane_folder.mkdir()
    plane = ControlPlane(cluster, plane_folder, state.programs(), Authority(plane_folder))
    both = registries.start(cluster, folder)
    for index, name in enumerate(NODES):
        node.make(cluster, name, index, plane, both)
    with ThreadPoolExecutor() as pool:
        pushed = pool.submit(_push_images, cluster, both[0].host)
        admin = control_plane.start(plane)
        pushed.result()
        list(pool.map(lambda name: node.start(cluster, name), NODES))
    nodes = tuple(
        state.NodeState(name, cluster.node_address(index), str(node.root(cluster.name, name)))
        for index, name in enumerate(NODES)
    )
    made = state.State(
        names=cluster,
        folder=str(folder),
        programs=str(plane.programs),
        kubeconfig=str(admin),
        nodes=nodes,
        registry=both[0],
        private_registry=both[1],
        audit_log=str(plane.audit_log),
    )
    running = Cluster(made)
    _wait_for_nodes(running)
    state.write(made)
    return running


def _push_images(cluster: Names, registry: str) -> None:
    registries.wait(cluster)
    images.push(registry)


def _wait_for_nodes(cluster: Cluster, deadline_seconds: float = 180.0) -> None:
    """A kubelet that starts on a very busy machine can give up before its node is there: it is started once more."""
    deadline = time.monotonic() + deadline_seconds
    again = {f"kubelet-{name}" for name in NODES}
    while not cluster.nodes_ready():
        for kubelet in NODES:
            program = f"kubelet-{kubelet}"
            if program in again and not processes.is_running(cluster.name, program):
                again.remove(program)
                processes.restart(cluster.name, program)
        if time.monotonic() > deadline:
            tails = "\n".join(processes.log_tail(cluster.name, f"kubelet-{name}") for name in NODES)
            raise processes.StartError(f"nodes were not ready in {deadline_seconds:.0f} s:\n{tails}")
        time.sleep(0.3)


@contextmanager
def _planning() -> Iterator[None]:
    """One cluster at a time takes a number: until its interface is there, nobody else sees that it is taken."""
    state.clusters().mkdir(parents=True, exist_ok=True)
    with (state.clusters() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _free_number() -> int:
    """The first number whose subnet and ports nobody uses. Raises StartError."""
    routes = Path("/proc/net/route").read_text()
    for number in names.NUMBERS:
        subnet = socket.inet_aton(f"10.88.{number}.0")[::-1].hex().upper()
        if subnet not in routes and all(_is_free(port) for port in names.ports(number).values()):
            return number
    raise processes.StartError("no subnet 10.88.N.0/24 with N from 78 to 249 is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
