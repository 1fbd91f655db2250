"""Control groups of a cluster: every process of it is in one, so that none is missed when it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from tests.cluster.rig import names, state, waiting

MOUNT = Path("/sys/fs/cgroup")
UNIFIED = (MOUNT / "cgroup.controllers").exists()
PROGRAMS = "programs"


def create(name: str, nodes: tuple[str, ...]) -> None:
    """A group for the cluster's programs, and one for each node's Pods, in every hierarchy."""
    if UNIFIED:
        _switch_on(state.folder(name) / "controllers")
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
    return _living(_tracking(name).rglob("cgroup.procs"))


def container_processes(name: str, container: str) -> set[int]:
    """The living processes of one container, by its id."""
    return _living(_tracking(name).rglob(f"{container}/cgroup.procs"))


def node_processes(name: str, node: str) -> set[int]:
    """The living processes of all containers of a node."""
    return _living((_tracking(name) / node).rglob("cgroup.procs"))


def kill(name: str) -> None:
    """End every process of the cluster. Raises TimeoutError if some do not end."""
    end(lambda: processes(name))


def end(living: Callable[[], set[int]]) -> None:
    """Kill these processes until none lives, for new ones may come from them meanwhile. Raises TimeoutError."""
    waiting.until(lambda: not _kill_once(living()), "processes to end")


def remove(name: str) -> None:
    """Remove the cluster's groups, and end what a start that was killed just now still puts into them.

    Raises TimeoutError.
    """
    for hierarchy in _hierarchies():
        cluster = hierarchy / names.cgroup(name)
        waiting.until(partial(_is_removed, name, cluster), f"the control group {cluster} to go away")
    if UNIFIED:
        _switch_off(state.folder(name) / "controllers")


def _hierarchies() -> list[Path]:
    """Where groups are made: the one folder of version 2, or each folder of version 1, which may have 2 beside it."""
    return [MOUNT] if UNIFIED else sorted({path.resolve() for path in MOUNT.iterdir() if path.is_dir()})


def _tracking(name: str) -> Path:
    """The hierarchy that is asked which processes belong to the cluster."""
    return (MOUNT if UNIFIED else MOUNT / "pids") / names.cgroup(name)


def _delegate(group: Path) -> None:
    """Let the group's children be limited: version 2 wants to be told, version 1's cpuset wants processors."""
    if UNIFIED and group.name != PROGRAMS:
        controllers = (group / "cgroup.controllers").read_text().split()
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))
    for file in ("cpuset.cpus", "cpuset.mems"):
        if not UNIFIED and (group / file).exists():
            (group / file).write_text((group.parent / file).read_text())


def _switch_on(record: Path) -> None:
    """Let groups of version 2 be limited in every way; what had to be switched on for that is kept in `record`."""
    switch = MOUNT / "cgroup.subtree_control"
    missing = sorted(set((MOUNT / "cgroup.controllers").read_text().split()) - set(switch.read_text().split()))
    record.write_text("\n".join(missing))
    switch.write_text(" ".join(f"+{controller}" for controller in missing))


def _switch_off(record: Path) -> None:
    for controller in record.read_text().split() if record.exists() else ():
        try:
            (MOUNT / "cgroup.subtree_control").write_text(f"-{controller}")
        except OSError:  # somebody else uses it by now
            continue


def _living(files: Iterable[Path]) -> set[int]:
    found: set[int] = set()
    for file in files:
        try:
            found.update(int(pid) for pid in file.read_text().split())
        except OSError:  # the group went while we looked
            continue
    return {pid for pid in found if _alive(pid)}


def _alive(pid: int) -> bool:
    """True until the last thread has ended: a killed program holds its sockets until then, as if it still ran."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return False
    return threads > 1 or stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _kill_once(living: set[int]) -> set[int]:
    """Kill these; the same, for new ones may have come from them meanwhile."""
    for pid in living:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return living


def _is_removed(name: str, cluster: Path) -> bool:
    """Remove leaves first; the kernel may still be busy with a group that has just become empty."""
    _kill_once(processes(name))
    try:
        for folder, _, _ in os.walk(cluster, topdown=False):
            Path(folder).rmdir()
    except OSError:
        return False
    return not cluster.exists()
