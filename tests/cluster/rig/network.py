"""The network of a cluster: a switch in a namespace of its own, one link to the host, one to each node.

Namespaces are those of a process that only waits, and have no name: when it ends, they and all links in them are gone.
The switch is not on the host, so that no packet between nodes meets the host's packet filter, and nothing on the host
has to be changed but one interface that is added.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cluster.rig import names, processes, waiting
from tests.cluster.rig.names import Names

SWITCH = "switch"


def make_switch(cluster: Names) -> None:
    """The switch and the host's link to it."""
    pid = processes.start(cluster.name, SWITCH, ["unshare", "--net", "sleep", "infinity"])
    processes.wait(cluster.name, SWITCH, lambda: runs(pid, "sleep"))
    _ip("link", "add", cluster.link, "type", "veth", "peer", "name", "uplink", "netns", str(pid))
    _ip("address", "add", f"{cluster.gateway}/24", "dev", cluster.link)
    _ip("link", "set", cluster.link, "up")
    _ip("link", "add", "bridge", "type", "bridge", inside=pid)
    _ip("link", "set", "bridge", "up", inside=pid)
    _ip("link", "set", "uplink", "master", "bridge", "up", inside=pid)


def connect_node(cluster: Names, node: str, index: int, holder: int) -> None:
    """Link the node whose namespaces the process `holder` keeps, and tell it the ways to other nodes' Pods."""
    switch = processes.pid_of(cluster.name, SWITCH)
    _ip("link", "add", node, "type", "veth", "peer", "name", "eth0", "netns", str(holder), inside=switch)
    _ip("link", "set", node, "master", "bridge", "up", inside=switch)
    _ip("link", "set", "lo", "up", inside=holder)
    _ip("address", "add", f"{cluster.node_address(index)}/24", "dev", "eth0", inside=holder)
    _ip("link", "set", "eth0", "up", inside=holder)
    _ip("route", "add", "default", "via", cluster.gateway, inside=holder)
    for other in range(len(names.NODES)):
        if other != index:
            _ip("route", "add", cluster.pod_subnet(other), "via", cluster.node_address(other), inside=holder)


def cut(cluster: str, node: str) -> None:
    """Pull the node's cable: nothing reaches it or leaves it, and what runs on it goes on."""
    _ip("link", "set", node, "down", inside=processes.pid_of(cluster, SWITCH))


def mend(cluster: str, node: str) -> None:
    """Plug the node's cable in again."""
    _ip("link", "set", node, "up", inside=processes.pid_of(cluster, SWITCH))


def remove(name: str) -> None:
    """Remove the host's link, and wait until it is gone: the kernel takes the rest with the namespaces."""
    interface = Path("/sys/class/net", names.link(name))
    if interface.exists():  # it may go by itself meanwhile: its other end is in the switch's namespace
        subprocess.run(["ip", "link", "delete", names.link(name)], capture_output=True)
    waiting.until(lambda: not interface.exists(), f"the interface {names.link(name)} to go away")


def runs(pid: int, program: str) -> bool:
    """True once the process has become that program, which is when what it set up before is there."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == program
    except OSError:
        return False


def _ip(*arguments: str, inside: int | None = None) -> None:
    """Run `ip` on the host, or inside the network of a process."""
    enter = [] if inside is None else ["nsenter", f"--net=/proc/{inside}/ns/net"]
    done = subprocess.run([*enter, "ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise processes.StartError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
