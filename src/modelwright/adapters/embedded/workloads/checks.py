"""Refusing, when it is applied, what cannot run here."""

from __future__ import annotations

from modelwright.adapters.embedded.workloads import commands, program
from modelwright.ports.errors import Terminal
from modelwright.ports.workloads import BuildImage, HostPath, Server, Task


def check(workload: Task | Server) -> None:
    """Raises Terminal with reason NeedsContainers, StorageNotSupported and the like, and Invalid for wrong values."""
    if isinstance(workload, Server):
        program.check(workload)
    elif isinstance(workload.action, BuildImage):
        _check_build(workload.name, workload.action)
    else:
        commands.check(workload, workload.action)


def _check_build(name: str, action: BuildImage) -> None:
    if action.builder == "kaniko":
        raise Terminal(
            f"{name}: the builder kaniko is a container, and there are none on this machine: use builder native",
            reason="NeedsContainers",
        )
    if not isinstance(action.source, HostPath):
        kind = type(action.source).__name__
        raise Terminal(
            f"{name}: storage of the kind {kind} needs a cluster: use localStorage", reason="StorageNotSupported"
        )
