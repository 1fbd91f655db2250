"""A running cluster of the project's own: where everything is, and what a fault test does to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster.rig import cgroups, control_plane, etcd, health, network, node, processes
from tests.cluster.rig.kubernetes import Kubernetes
from tests.cluster.rig.names import NODES
from tests.cluster.rig.state import NodeState, RegistryState, State


class Cluster(Kubernetes, frozen=True):
    """A running cluster. Programs go by these names: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
    registry, private-registry, nfs, and for each node containerd-NODE, kubelet-NODE, kube-proxy-NODE, csi-NODE."""

    state: State

    @classmethod
    def of(cls, state: State) -> Cluster:
        return cls(kubeconfig=Path(state.kubeconfig), kubectl=Path(state.programs, "kubectl"), state=state)

    @property
    def name(self) -> str:
        return self.state.names.name

    @property
    def programs(self) -> Path:
        """The folder of the Go programs: kubectl, helm, etcd, kaniko, ..."""
        return Path(self.state.programs)

    @property
    def nodes(self) -> tuple[NodeState, ...]:
        return self.state.nodes

    @property
    def registry(self) -> str:
        """HOST:PORT of the registry without TLS or password: the host, nodes and Pods reach it."""
        return self.state.registry.host

    @property
    def private_registry(self) -> RegistryState:
        """The registry with TLS by an authority of its own, and a password."""
        return self.state.private_registry

    @property
    def audit_log(self) -> Path:
        return Path(self.state.audit_log)

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """What was asked of the kube-apiserver so far: audit.k8s.io/v1 Events, oldest first."""
        with self.audit_log.open() as lines:
            yield from (json.loads(line) for line in lines if line.endswith("\n"))

    def nodes_ready(self) -> bool:
        """True if every node that a cluster starts with has registered and is ready."""
        path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
        return self.run("get", "nodes", *NODES, "-o", path, check=False).split() == ["True"] * len(NODES)

    def on_node(self, name: str, *command: str, stdin: str | None = None) -> str:
        """Run a command in the node's network and file system; what it printed. Raises CalledProcessError."""
        argv = [*node.enter(self.name, name), *command]
        return subprocess.run(argv, check=True, capture_output=True, text=True, input=stdin).stdout

    def node(self, name: str) -> NodeState:
        """Where a node is: also `edge-1`, which runs once `start_node` has been asked for it."""
        return node.state_of(self.state.names, name)

    def start_node(self, name: str) -> NodeState:
        """Start those programs of a node that do not run, and wait until it has registered. Raises StartError.

        `edge-1` has no network for Pods, so it stays NotReady, and runs Pods of the host's network all the same.
        """
        node.start(self.state.names, name)
        health.wait(self.state.names, f"kubelet-{name}")
        self.run("wait", "--for=create", f"node/{name}", "--timeout=60s")
        return self.node(name)

    def kill_node(self, name: str) -> None:
        """Kill kubelet, containerd and all containers of a node, as when its power fails; `start_node` starts it."""
        node.stop(self.state.names, name)

    def kill_containers(self, name: str) -> None:
        """Kill all containers of a node. Its kubelet, if it runs, starts them again."""
        for pid in cgroups.node_processes(self.name, name):
            _kill(pid)

    def cut(self, name: str) -> None:
        """Pull the node's cable: nothing reaches it or leaves it, and what runs on it goes on."""
        network.cut(self.name, name)

    def mend(self, name: str) -> None:
        """Plug the node's cable in again."""
        network.mend(self.name, name)

    def pid(self, program: str) -> int:
        """The process id of a program."""
        return processes.pid_of(self.name, program)

    def stop(self, program: str, *, kill: bool = False) -> None:
        """Stop a program and wait until it has ended."""
        processes.stop(self.name, program, kill=kill)

    def start(self, program: str) -> None:
        """Start a stopped program again, with the same arguments, ports and data, and wait until it does its work.

        Raises StartError, also where what it needs is not there: a kubelet ends without its containerd.
        """
        processes.restart(self.name, program)
        health.wait(self.state.names, program)

    def compact_etcd(self) -> int:
        """Make etcd forget its past, so that watches from before are told 410; its present revision."""
        return etcd.compact(control_plane.etcd_url(self.state.names))

    def container_processes(self, namespace: str, pod: str, container: str) -> set[int]:
        """The process ids of a running container, as the host sees them."""
        statuses = self.get("pod", pod, "--namespace", namespace)["status"]["containerStatuses"]
        known = next(status["containerID"] for status in statuses if status["name"] == container)
        return cgroups.container_processes(self.name, known.rpartition("/")[2])

    def kill_container(self, namespace: str, pod: str, container: str) -> None:
        """Kill a container's processes, as the kernel does when memory is short; the kubelet starts it again."""
        for pid in self.container_processes(namespace, pod, container):
            _kill(pid)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended
        pass
