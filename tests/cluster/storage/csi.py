"""The CSI node plug-in that goes by the name of AWS EFS's driver, built once into the cache; its volumes are NFS's."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import msgspec
from tests.tools import install

DRIVER = "efs.csi.aws.com"
EXPORT = "/efs"
"""The path on the NFS server under which each file system is a folder fs-ID, and each access point a folder fsap-ID."""
SOURCES = Path(__file__).with_name("csi_driver")
OBJECT = Path(__file__).with_name("csi_driver.yaml")
"""The cluster's CSIDriver: nothing is attached to a node before it is mounted there."""


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    """What a volumeHandle was understood to name."""

    file_system: str
    subpath: str
    access_point: str


class Publication(msgspec.Struct, frozen=True, rename="camel"):
    """One request of a kubelet for a volume: what it asked, what the plug-in mounted, and why not if it did not."""

    volume_handle: str
    volume_context: dict[str, str] | None
    volume: Volume
    source: str
    read_only: bool
    target_path: str
    error: str


def build() -> Path:
    """The program, which needs nothing where it runs. Raises CalledProcessError where Go refuses it."""
    folder = install.cache_root() / f"csi-{_key()}"
    program = folder / "csi"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{os.getpid()}"
        command = ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(partial), "."]
        subprocess.run(command, cwd=SOURCES, check=True, env=_go_environment())
        partial.rename(program)
    return program


def command(program: str, node: str, server: str, record: str) -> list[str]:
    """The command that serves the node's kubelet, run beside it on the node, where `program` and `record` are paths.

    It registers itself with the kubelet, before or after that starts. SIGTERM ends it; mounted volumes stay.
    """
    return [program, f"--node={node}", f"--server={server}", f"--root={EXPORT}", f"--record={record}"]


def publications(record: Path) -> list[Publication]:
    """What the plug-in was asked for so far, oldest first; `record` is its file as the host sees it."""
    if not record.exists():
        return []
    return [msgspec.json.decode(line, type=Publication) for line in record.read_bytes().splitlines()]


def check() -> None:
    """Run the plug-in's own tests. Raises CalledProcessError with what they print."""
    command = ["go", "test", "-mod=readonly", "./..."]
    subprocess.run(command, cwd=SOURCES, check=True, env=_go_environment(), capture_output=True, text=True)


def _go_environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0"}


def _key() -> str:
    digest = hashlib.sha256()
    for source in sorted(SOURCES.glob("*")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
