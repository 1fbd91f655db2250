"""A running cluster: where everything is, and what a fault test does to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.cluster.rig import control_plane, network, node, processes, state


class Cluster(msgspec.Struct, frozen=True):
    """A running cluster."""

    state: state.State

    @property
    def name(self) -> str:
        return self.state.names.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return Path(self.state.kubeconfig)

    @property
    def programs(self) -> Path:
        return Path(self.state.programs)

    @property
    def kubectl(self) -> Path:
        return self.programs / "kubectl"

    @property
    def nodes(self) -> tuple[state.NodeState, ...]:
        return self.state.nodes

    @property
    def registry(self) -> str:
        """HOST:PORT of the registry without TLS or password; nodes, Pods and the host reach it."""
        return self.state.registry.host

    @property
    def private_registry(self) -> state.RegistryState:
        return self.state.private_registry

    @property
    def audit_log(self) -> Path:
        return Path(self.state.audit_log)

    def run(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator; what it printed. Raises CalledProcessError with its complaint as a note."""
        command = [str(self.kubectl), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True)
        if check and done.returncode:
            fault = subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
            fault.add_note(done.stderr)
            raise fault
        return done.stdout

    def wait_for_service_account(self, namespace: str) -> None:
        """Wait until Pods can be made in a new namespace."""
        self.run("wait", "--for=create", "--timeout=60s", "serviceaccount/default", "--namespace", namespace)

    def nodes_ready(self) -> bool:
        """True if every node has registered and says that it is ready."""
        path = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
        return self.run("get", "nodes", "-o", path, check=False).split() == ["True"] * len(node_names())

    def audit_events(self) -> Iterator[dict[str, object]]:
        """What was asked of the kube-apiserver so far: audit.k8s.io/v1 Events, oldest first."""
        with self.audit_log.open() as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield json.loads(line)

    def on_node(self, name: str, *command: str, stdin: str | None = None) -> str:
        """Run a command in the node's network and file system; what it printed."""
        argv = [*node.enter(self.name, name), *command]
        return subprocess.run(argv, check=True, capture_output=True, text=True, input=stdin).stdout

    def cut(self, name: str) -> None:
        """Pull the node's cable."""
        network.cut(self.name, name)

    def mend(self, name: str) -> None:
        network.mend(self.name, name)

    def pid(self, program: str) -> int:
        """The process id of a program: etcd, kube-apiserver, kubelet-edge-0, containerd-cloud-0, registry, ..."""
        return processes.pid_of(self.name, program)

    def stop(self, program: str, *, kill: bool = False) -> None:
        processes.stop(self.name, program, kill=kill)

    def start(self, program: str) -> None:
        """Start a stopped program again, with the same arguments, ports and data."""
        processes.restart(self.name, program)
        if program == "kube-apiserver":
            control_plane.wait_ready(self.state.names, Path(self.state.folder, "control-plane/ca.crt"))


def node_names() -> tuple[str, ...]:
    from tests.cluster.rig.names import NODES

    return NODES
