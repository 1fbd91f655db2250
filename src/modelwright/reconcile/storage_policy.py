"""What an admin lets models be read from (`StoragePolicy`), where many users share a cluster's nodes.

Where there is no policy, as on one machine of one user, everything is allowed.
"""

from __future__ import annotations

from modelwright.api.storage import Storage
from modelwright.ports.capabilities import StoragePolicy
from modelwright.ports.workloads import Efs, HostPath, Nfs
from modelwright.reconcile import nfs_servers
from modelwright.reconcile.findings import Finding
from modelwright.reconcile.host_paths import is_clear, lies_in, normalised, system_folder
from modelwright.reconcile.storage import kind_of_storage, storage_source

SHOWN = 8
"""How much of an allow-list a message shows."""
MOUNT_TARGET = "mounttargetip"
"""The driver compares the names of attributes in lower case."""
FIELDS = {"hostPath": "localStorage", "nfs": "nfs", "efs": "AWSEfs"}
"""What a spec calls the kinds of storage that need a volume of our making."""


def forbidden_storage(storage: Storage, policy: StoragePolicy | None) -> Finding | None:
    """What the policy has against this storage."""
    if policy is None or storage.persistent_volume_claim is not None:
        return None
    if not policy.create_volumes:
        return _volumes_are_off(storage)
    match storage_source(storage):
        case HostPath(path=path):
            return forbidden_host_path(path, policy.host_paths)
        case Nfs(server=server, path=path):
            return forbidden_export(server, path, policy.nfs_servers)
        case Efs(attributes=attributes):
            return forbidden_mount_target(attributes, policy.nfs_servers)
    return None


def forbidden_host_path(path: str, allowed: tuple[str, ...]) -> Finding | None:
    """An allow-list names all that is allowed; without one, all is allowed but the system's own folders."""
    if not is_clear(path):
        return _finding(f"localStorage.path {path} has to be absolute and without '..': write where it leads")
    if allowed:
        return None if any(lies_in(path, folder) for folder in allowed) else _not_listed(path, allowed)
    folder = system_folder(path)
    if not folder:
        return None
    plain = normalised(path)
    where = f"lies in {folder}, which is" if lies_in(plain, folder) else f"holds {folder}, which is"
    place = f"{path} {'is' if plain == folder else where} the node's own"
    return _finding(
        f"localStorage.path {place}: keep the model in a folder of its own, such as "
        "/data/models, or ask the cluster's admin to allow this path"
    )


def forbidden_export(server: str, path: str, allowed: tuple[str, ...]) -> Finding | None:
    """An allow-list names all servers that are allowed; without one, any is."""
    if not is_clear(path):
        return _finding(f"nfs.path {path} has to be absolute and without '..': write where it leads")
    known = {nfs_servers.canonical(each) for each in allowed}
    if not allowed or nfs_servers.canonical(server) in known:
        return None
    return _finding(
        f"the NFS server {server} is not among those that the cluster's admin allows ({_listed(allowed)}): "
        "keep the model on one of these, or ask the admin to allow this one"
    )


def forbidden_mount_target(attributes: dict[str, str], allowed: tuple[str, ...]) -> Finding | None:
    """The driver of EFS mounts whatever NFS server is given as its target: the same list says which may be."""
    known = {nfs_servers.canonical(each) for each in allowed}
    for name, value in attributes.items():
        if allowed and name.lower() == MOUNT_TARGET and nfs_servers.canonical(value) not in known:
            return _finding(
                f"AWSEfs.attributes.{name} {value} is not among the NFS servers that the cluster's admin allows "
                f"({_listed(allowed)}): leave it out, or ask the admin to allow it"
            )
    return None


def _volumes_are_off(storage: Storage) -> Finding:
    field = FIELDS[kind_of_storage(storage)]
    return _finding(
        f"storage.{field} needs a PersistentVolume that the operator makes, and the cluster's admin has switched that "
        "off: put the model on a volume of your own and name its claim in storage.persistentVolumeClaim"
    )


def _not_listed(path: str, allowed: tuple[str, ...]) -> Finding:
    return _finding(
        f"localStorage.path {path} is not below a folder that the cluster's admin allows ({_listed(allowed)}): "
        "keep the model in one of these, or ask the admin to allow this one"
    )


def _listed(allowed: tuple[str, ...]) -> str:
    more = len(allowed) - SHOWN
    return ", ".join(allowed[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _finding(message: str) -> Finding:
    return Finding("StorageForbidden", message)
