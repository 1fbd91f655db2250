"""What a cluster could leave behind on a machine, for a test to compare before and after."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.rig import cgroups, names, state

FOLDERS = ("/", "/etc", "/opt", "/run", "/srv", "/mnt", "/var", "/var/lib", "/var/log", "/var/tmp")
TREES = (  # where a Kubernetes keeps things
    "/etc/cni",
    "/etc/containerd",
    "/etc/kubernetes",
    "/opt/cni",
    "/run/containerd",
    "/run/kubernetes",
    "/run/netns",
    "/run/runc",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
)
PARAMETERS = (
    "kernel/keys",
    "net/bridge",
    "net/ipv4",
    "net/ipv4/conf/all",
    "net/ipv4/conf/default",
    "net/netfilter",
    "vm",
)
PARAMETER = "parameter "
COUNTERS = {"nf_conntrack_count", "nf_conntrack_buckets"}


def found(name: str) -> set[str]:
    """One line for everything that the cluster of this name could have made or changed; nothing of other clusters."""
    return {line for line in _everything(name) if not _is_of_another(line, name)}


def added(before: set[str], name: str) -> list[str]:
    """What is there now, and was not before; a parameter that came with a module of the kernel was not changed."""
    known = {_parameter(line) for line in before}
    new = found(name) - before
    return sorted(line for line in new if not line.startswith(PARAMETER) or _parameter(line) in known)


def processes(name: str) -> set[int]:
    """Every process that has to do with the cluster, by its control group, namespaces or arguments."""
    marks = (f"/{names.cgroup(name)}/", f"{state.folder(name)}/")
    return {pid for pid in _all_processes() if _mentions(pid, marks)}


def namespaces(pids: set[int]) -> set[str]:
    """The mount and network namespaces that these processes do not share with this one."""
    kinds = ("mnt", "net")
    return {link for pid in pids for kind in kinds if (link := _namespace(pid, kind)) != _namespace(os.getpid(), kind)}


def namespaces_in_use() -> set[str]:
    return namespaces(_all_processes())


def routes() -> list[str]:
    """The host's routes, as `ip` writes them."""
    return subprocess.run(["ip", "-4", "route"], check=True, capture_output=True, text=True).stdout.splitlines()


def _everything(name: str) -> Iterator[str]:
    yield from (f"interface {path.name}" for path in Path("/sys/class/net").iterdir())
    yield from (f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines())
    yield from (f"control group {folder}" for folder, _, _ in os.walk(cgroups.MOUNT))
    yield from (f"process {pid}" for pid in processes(name))
    yield from (f"file {path}" for folder in FOLDERS for path in Path(folder).glob("*"))
    yield from (f"file {path}" for folder in TREES for path in _files(Path(folder)))
    yield from (f"file {path}" for path in state.clusters().glob("*"))
    yield from (f"{PARAMETER}{line}" for line in _parameters())
    for command in (["nft", "--stateless", "list", "ruleset"], ["iptables-legacy-save"]):
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rules = re.sub(r"\[[0-9]+:[0-9]+\]", "", said)  # what a rule has counted
        yield from (f"packet filter: {line}" for line in rules.splitlines() if not line.startswith("#"))
    yield from (f"route {line}" for line in routes() if " mw-" not in line or f" {names.link(name)} " in line)


def _is_of_another(line: str, name: str) -> bool:
    """Other clusters may come and go meanwhile."""
    ours = (names.cgroup(name), names.link(name), str(state.folder(name)))
    others = ("modelwright-", "interface mw-", f"file {state.clusters()}/")
    return any(mark in line for mark in others) and not any(mark in line for mark in ours)


def _files(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        yield from (str(Path(parent, entry)) for entry in (*folders, *files))


def _parameters() -> Iterator[str]:
    for folder in PARAMETERS:
        for file in sorted(Path("/proc/sys", folder).glob("*")):
            if file.is_file() and file.name not in COUNTERS and os.access(file, os.R_OK):
                yield f"{file} {_read(file)}"
    for name in ("panic", "panic_on_oops"):
        yield f"{name} {_read(Path('/proc/sys/kernel', name))}"


def _parameter(line: str) -> str:
    return " ".join(line.split()[:2])


def _all_processes() -> set[int]:
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # some can only be written
        return ""


def _mentions(pid: int, marks: tuple[str, ...]) -> bool:
    try:
        folder = Path("/proc", str(pid))
        said = (folder / "cgroup").read_text() + (folder / "cmdline").read_bytes().decode(errors="replace")
    except OSError:  # it has ended
        return False
    return any(mark in said for mark in marks)


def _namespace(pid: int, kind: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return _namespace(os.getpid(), kind)
