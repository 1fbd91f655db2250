"""What the parts of a cluster are called: everything follows from its name and its number."""

from __future__ import annotations

import re

import msgspec

NODES = ("cloud-0", "edge-0")
"""The nodes that every cluster starts with."""
BARE_NODE = "edge-1"
"""An edge node as it is delivered: no network for Pods, no kube-proxy. It is started by who needs it."""
ALL_NODES = (*NODES, BARE_NODE)
NUMBERS = range(78, 250)
PORTS_PER_CLUSTER = 10
SERVICE_SUBNET = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
POD_SUBNET = "10.244.0.0/16"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,10}[a-z0-9]|[a-z]")


class Names(msgspec.Struct, frozen=True):
    """The names, addresses and ports of one cluster; `number` keeps clusters on one machine apart."""

    name: str
    number: int

    @property
    def link(self) -> str:
        """The host's end of the link to the cluster's switch: the only interface that the host gets."""
        return link(self.name)

    @property
    def gateway(self) -> str:
        """The host's address on that link: nodes and Pods reach control plane and registries there."""
        return f"10.88.{self.number}.1"

    @property
    def loopback(self) -> str:
        """Where what nodes must not reach listens: etcd, and the health of the controllers."""
        return f"127.88.{self.number}.1"

    def node_address(self, index: int) -> str:
        return f"10.88.{self.number}.{11 + index}"

    def pod_subnet(self, index: int) -> str:
        return f"10.244.{11 + index}.0/24"

    def port(self, program: str) -> int:
        """A port of the host's; not one that Kubernetes usually has: another cluster may hold it on all addresses."""
        return ports(self.number)[program]


PROGRAMS_WITH_PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "registry",
    "private-registry",
)


def ports(number: int) -> dict[str, int]:
    """The host's ports of the cluster with this number, below those that the kernel gives out."""
    first = 21000 + PORTS_PER_CLUSTER * number
    return {program: first + offset for offset, program in enumerate(PROGRAMS_WITH_PORTS)}


def link(name: str) -> str:
    return f"mw-{name}"


def cgroup(name: str) -> str:
    return f"modelwright-{name}"


def check_name(name: str) -> str:
    """The name itself, if it can be part of an interface's name. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a cluster's name is 1 to 12 of a-z, 0-9 and '-', beginning with a letter: not {name!r}")
    return name
