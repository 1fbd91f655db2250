"""Where a cluster keeps what it has, outside the checkout, and what a test or a person finds it by."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from tests.cluster.rig.names import Names


class NodeState(msgspec.Struct, frozen=True):
    """A node: its name and address, and the folder that is its root file system."""

    name: str
    address: str
    root: str


class RegistryState(msgspec.Struct, frozen=True):
    """A registry: HOST:PORT, and, where it is private, who may use it and by which authority it is known."""

    host: str
    user: str = ""
    password: str = ""
    ca_file: str = ""


class StorageState(msgspec.Struct, frozen=True):
    """The NFS server: its address, and the folder of this machine behind each path that it exports.

    In the folder `efs` each file system of EFS is a folder fs-ID, and each access point a folder fsap-ID.
    """

    server: str = ""
    exports: dict[str, str] = {}
    efs: str = ""


class State(msgspec.Struct, frozen=True):
    """A running cluster, as its state file says it."""

    names: Names
    folder: str
    programs: str
    kubeconfig: str
    nodes: tuple[NodeState, ...]
    registry: RegistryState
    private_registry: RegistryState
    audit_log: str
    storage: StorageState = StorageState()


def clusters() -> Path:
    """The folder of all clusters: XDG_CACHE_HOME or ~/.cache, then modelwright/clusters."""
    return cache() / "clusters"


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "modelwright"


def folder(name: str) -> Path:
    return clusters() / name


def state_file(name: str) -> Path:
    return folder(name) / "state.json"


def write(state: State) -> Path:
    """Write the state file, last of all: a cluster that has one is ready."""
    file = state_file(state.names.name)
    partial = file.with_suffix(".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    partial.chmod(0o600)
    return partial.rename(file)


def read(file: Path) -> State:
    return msgspec.json.decode(file.read_bytes(), type=State)
