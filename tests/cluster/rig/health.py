"""Whether a program of a cluster does its work, as it says itself."""

from __future__ import annotations

import socket
import ssl
import urllib.request
from functools import partial
from pathlib import Path

from tests.cluster.rig import processes, state
from tests.cluster.rig.names import ALL_NODES, Names

HEALTH_PORTS = {"kubelet": 10248, "kube-proxy": 10256}


def wait(cluster: Names, program: str) -> None:
    """Wait until a program that was started does its work. Raises StartError."""
    processes.wait(cluster.name, program, partial(is_healthy, cluster, program))


def is_healthy(cluster: Names, program: str) -> bool:
    """True once the program does its work; of one that cannot be asked, once it listens, or at once."""
    for node in ALL_NODES:
        kind = program.removesuffix(f"-{node}")
        if kind in HEALTH_PORTS:
            return _answers(f"http://{cluster.node_address(ALL_NODES.index(node))}:{HEALTH_PORTS[kind]}/healthz")
        if kind == "containerd":
            return _listens_at(socket.AF_UNIX, _containerd_socket(cluster, node))
    match program:
        case "etcd":
            return _answers(f"http://{cluster.loopback}:{cluster.port('etcd')}/health")
        case "kube-apiserver":
            return _answers(f"https://{cluster.gateway}:{cluster.port(program)}/readyz", state.folder(cluster.name))
        case "kube-controller-manager" | "kube-scheduler":
            return _listens_at(socket.AF_INET, (cluster.loopback, cluster.port(program)))
        case "registry" | "private-registry":
            return _listens_at(socket.AF_INET, (cluster.gateway, cluster.port(program)))
        case _:
            return True


def _containerd_socket(cluster: Names, node: str) -> str:
    return f"/proc/{processes.pid_of(cluster.name, node)}/root/run/containerd/containerd.sock"


def _answers(url: str, folder: Path | None = None) -> bool:
    tls = ssl.create_default_context(cafile=str(folder / "control-plane/ca.crt")) if folder else None
    try:
        with urllib.request.urlopen(url, timeout=5, context=tls) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _listens_at(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as client:
        client.settimeout(5)
        try:
            client.connect(address)
        except OSError:
            return False
        return True
