"""What a place to run can do, and what its admin allows. What it cannot is said in a condition, never passed over."""

from __future__ import annotations

import msgspec

PROGRAMS = frozenset({"buildImage", "command", "modelServer", "container", "gateway"})
"""What Tasks and Servers can be, by the tags of the port's structs."""


class StoragePolicy(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What an admin lets models be read from, where volumes are made for many users on machines that are theirs.

    A list that is not empty names all that is allowed: host folders with what lies below them, and NFS servers. While
    `host_paths` is empty every folder but the system's own is allowed; one that it names is allowed whatever it is.
    Without `create_volumes` no PersistentVolume is made, and only claims can be used.
    """

    create_volumes: bool = True
    host_paths: tuple[str, ...] = ()
    nfs_servers: tuple[str, ...] = ()


class Capabilities(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What this place can do. `storage_policy` None allows whatever the process that runs there can read."""

    containers: bool
    storage: frozenset[str]
    frameworks: frozenset[str]
    default_registry: str
    single_node: str = ""
    """The name of the only node, where there is only one; empty on a cluster."""
    programs: frozenset[str] = PROGRAMS
    secured: frozenset[str] = frozenset()
    """The frameworks whose server here asks for a bearer token and speaks TLS where that is wanted."""
    storage_policy: StoragePolicy | None = None
