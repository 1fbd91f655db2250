"""Control groups of a cluster: every process of it is in one, so that none is missed when it ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.cluster.rig import names

MOUNT = Path("/sys/fs/cgroup")
UNIFIED = (MOUNT / "cgroup.controllers").exists()
PROGRAMS = "programs"


def create(name: str, nodes: tuple[str, ...]) -> None:
    """A group for the cluster's programs, and one for each node's Pods, in every hierarchy."""
    for hierarchy in _hierarchies():
        cluster = hierarchy / names.cgroup(name)
        cluster.mkdir(exist_ok=True)
        _delegate(cluster)
        for group in (PROGRAMS, *nodes):
            (cluster / group).mkdir(exist_ok=True)
            _delegate(cluster / group)


def entry(name: str) -> Path:
    """The file into which a process of the cluster writes its id before it does anything else."""
    return _tracking(name) / PROGRAMS / "cgroup.procs"


def node_root(name: str, node: str) -> str:
    """The kubelet's cgroupRoot."""
    return f"/{names.cgroup(name)}/{node}"


def processes(name: str) -> set[int]:
    """Every living process of the cluster: its programs, containers and their helpers."""
    found: set[int] = set()
    for file in _tracking(name).rglob("cgroup.procs"):
        try:
            found.update(int(pid) for pid in file.read_text().split())
        except OSError:  # the group went while we looked
            continue
    return {pid for pid in found if _alive(pid)}


def kill(name: str, deadline_seconds: float = 60.0) -> None:
    """End every process of the cluster. Raises TimeoutError with what would not end."""
    deadline = time.monotonic() + deadline_seconds
    while living := processes(name):
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of cluster {name} do not end: {sorted(living)}")
        time.sleep(0.05)


def remove(name: str, deadline_seconds: float = 20.0) -> None:
    """Remove the cluster's groups, leaves first; the kernel may still be busy with one that has just become empty."""
    deadline = time.monotonic() + deadline_seconds
    for hierarchy in _hierarchies():
        cluster = hierarchy / names.cgroup(name)
        while cluster.exists():
            try:
                _remove_tree(cluster)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _hierarchies() -> list[Path]:
    """Where groups are made: the one folder of version 2, or each controller's of version 1."""
    if UNIFIED:
        return [MOUNT]
    return sorted({path.resolve() for path in MOUNT.iterdir() if path.is_dir() and path.name != "unified"})


def _tracking(name: str) -> Path:
    """The hierarchy that is asked which processes belong to the cluster."""
    return (MOUNT if UNIFIED else MOUNT / "pids") / names.cgroup(name)


def _delegate(group: Path) -> None:
    """Let the group's children be limited: version 2 asks for a word, version 1's cpuset for the processors."""
    if UNIFIED:
        if group.name != PROGRAMS:
            wanted = (group / "cgroup.controllers").read_text().split()
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
        return
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (group / file).exists():
            (group / file).write_text((group.parent / file).read_text())


def _remove_tree(group: Path) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        Path(folder).rmdir()


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
