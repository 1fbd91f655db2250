"""What a node can suffer: a disk that is full, and ports that are taken. It is as before afterwards."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.rig import node, processes
from tests.cluster.rig.cluster import Cluster
from tests.cluster.rig.waiting import until


@contextmanager
def small_disk(cluster: Cluster, on: str, folder: str, mebibytes: int) -> Iterator[Path]:
    """Mount a disk of this size at a folder of a node; where the host sees it. What is on it is lost afterwards.

    Pods that have the folder mounted already see what was there before.
    """
    cluster.on_node(on, "mkdir", "-p", folder)
    cluster.on_node(on, "mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "small", folder)
    try:
        yield Path(f"/proc/{cluster.pid(on)}/root{folder}")
    finally:
        cluster.on_node(on, "umount", "--lazy", folder)


def fill(disk: Path, *, leave_bytes: int = 0) -> Path:
    """Fill a small disk but for the last bytes; the file that does it: whoever removes it makes room again."""
    file, chunk = disk / "filling", bytes(1 << 16)
    with file.open("wb", buffering=0) as output:
        try:
            while output.write(chunk):
                pass
        except OSError:  # there is no room left
            pass
        output.truncate(max(0, output.tell() - leave_bytes))
    return file


@contextmanager
def occupied_port(cluster: Cluster, on: str, port: int) -> Iterator[None]:
    """Let a foreign process, which is no Pod, listen at a port of a node, once nobody else does any more."""
    name, address = f"foreign-{port}", (cluster.node(on).address, port)
    until(lambda: not _listens(address), f"the port {port} of {on} to be free")
    server = ["busybox", "httpd", "-f", "-p", str(port), "-h", "/var/tmp"]
    processes.start(cluster.name, name, [*node.enter(cluster.name, on), *server])
    try:
        processes.wait(cluster.name, name, lambda: _listens(address))
        yield
    finally:
        processes.stop(cluster.name, name, kill=True)


def _listens(address: tuple[str, int]) -> bool:
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(address) == 0
