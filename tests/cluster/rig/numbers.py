"""Which numbers are free: a cluster's number gives it a subnet and ports that nobody else has."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.rig import names, state
from tests.cluster.rig.processes import StartError


@contextmanager
def only_one() -> Iterator[None]:
    """Held while a number is taken: until its interface is there, nobody else sees that it is."""
    state.clusters().mkdir(parents=True, exist_ok=True)
    with (state.cache() / "clusters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def free_number() -> int:
    """The first number whose subnet and ports nobody uses. Raises StartError."""
    taken = _routes()
    for number in names.NUMBERS:
        if not any(_overlaps(number, route) for route in taken) and all(map(_is_free, names.ports(number).values())):
            return number
    raise StartError(f"no subnet 10.88.N.0/24 with N from {names.NUMBERS[0]} to {names.NUMBERS[-1]} is free")


def _routes() -> list[tuple[int, int]]:
    """The host's routes as (network, mask); wide ones are left out: a cluster's own, narrower one goes before them."""
    lines = Path("/proc/net/route").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    pairs = [(_host_order(field[1]), _host_order(field[7])) for field in fields]
    return [(network, mask) for network, mask in pairs if mask >= 0xFFFF0000]


def _host_order(word: str) -> int:
    """/proc/net/route writes addresses as they lie in memory."""
    return int.from_bytes(struct.pack("=I", int(word, 16)), "big")


def _overlaps(number: int, route: tuple[int, int]) -> bool:
    subnet, subnet_mask = int.from_bytes(socket.inet_aton(f"10.88.{number}.0"), "big"), 0xFFFFFF00
    network, mask = route
    common = mask & subnet_mask
    return subnet & common == network & common


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
