"""Starting a cluster, and removing every trace of it, whatever state it was left in."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.rig import (
    cgroups,
    control_plane,
    health,
    images,
    names,
    network,
    node,
    numbers,
    processes,
    registries,
    state,
    storage,
)
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.control_plane import ControlPlane
from tests.cluster.rig.names import ALL_NODES, NODES, Names
from tests.contract.pki import Authority


@contextmanager
def running_cluster(name: str, programs: Path) -> Iterator[Cluster]:
    """Start a cluster of one's own, and remove every trace of it afterwards. Raises StartError."""
    down(name)
    try:
        yield up(name, programs)
    finally:
        down(name)


def up(name: str, programs: Path) -> Cluster:
    """Start a cluster and wait until its nodes are ready. Raises StartError; then nothing of it is left.

    One of that name that runs is taken as it is; what is left of one that does not is removed first.
    """
    running = find(name)
    if running is not None:
        return running
    down(name)
    try:
        return _start(_plan(name), programs)
    except BaseException:
        down(name)
        raise


def find(name: str) -> Cluster | None:
    """The running cluster of that name."""
    file = state.state_file(names.check_name(name))
    if not file.exists() or not processes.is_running(name, "kube-apiserver"):
        return None
    return Cluster.of(state.read(file))


def down(name: str) -> None:
    """Remove all of a cluster. Everything is found by the cluster's name, so half of one is removed as well.

    Its mounts are in namespaces that end with its processes, so what is on disk then is files and nothing else.
    """
    names.check_name(name)
    cgroups.kill(name)
    network.remove(name)
    cgroups.remove(name)
    if state.folder(name).exists():
        shutil.rmtree(state.folder(name))


def _plan(name: str) -> Names:
    """Take a number and what shows others that it is taken."""
    with numbers.only_one():
        cluster = Names(name=name, number=numbers.free_number())
        state.folder(name).mkdir(mode=0o700)
        cgroups.create(name, ALL_NODES)
        network.make_switch(cluster)
    return cluster


def _start(cluster: Names, programs: Path) -> Cluster:
    folder = state.folder(cluster.name)
    plane_folder = folder / "control-plane"
    plane_folder.mkdir()
    plane = ControlPlane(cluster, plane_folder, programs, Authority(plane_folder))
    open_registry, private_registry = registries.start(cluster, folder)
    volumes = storage.start_server(cluster, folder / "nfs")
    for name in ALL_NODES:
        node.make(cluster, name, plane, (open_registry, private_registry))
    for name in NODES:
        storage.equip(cluster, name)
    with ThreadPoolExecutor() as pool:
        pushed = pool.submit(_push_images, cluster, open_registry.host)
        kubeconfig = control_plane.start(plane)
        pushed.result()
        list(pool.map(lambda name: node.start(cluster, name), NODES))
    made = Cluster.of(
        state.State(
            names=cluster,
            folder=str(folder),
            programs=str(programs),
            kubeconfig=str(kubeconfig),
            nodes=tuple(node.state_of(cluster, name) for name in NODES),
            registry=open_registry,
            private_registry=private_registry,
            audit_log=str(plane.audit_log),
            storage=volumes,
        )
    )
    storage.register(made)
    _wait_for_nodes(made)
    for name in NODES:
        health.wait(cluster, f"kube-proxy-{name}")  # Services are known to the node's kernel
    storage.wait(cluster, folder / "nfs")
    state.write(made.state)
    return made


def _push_images(cluster: Names, registry: str) -> None:
    registries.wait(cluster)
    images.push(registry)


def _wait_for_nodes(cluster: Cluster, deadline_seconds: float = 180.0) -> None:
    """A kubelet that starts on a very busy machine can give up before its node is there: it is started once more."""
    deadline = time.monotonic() + deadline_seconds
    again = {f"kubelet-{name}" for name in NODES}
    while not cluster.nodes_ready():
        for kubelet in sorted(again):
            if not processes.is_running(cluster.name, kubelet):
                again.remove(kubelet)
                processes.restart(cluster.name, kubelet)
        if time.monotonic() > deadline:
            tails = "\n".join(processes.log_tail(cluster.name, f"kubelet-{name}") for name in NODES)
            raise processes.StartError(f"nodes were not ready in {deadline_seconds:.0f} s:\n{tails}")
        time.sleep(0.2)
