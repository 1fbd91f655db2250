"""A spec's storage as the port's words."""

from __future__ import annotations

from modelwright.api.storage import Storage as StorageSpec
from modelwright.ports.workloads import Claim, Efs, HostPath, Nfs, Storage


def storage_source(storage: StorageSpec) -> Storage:
    """Where the files are. The schema has made sure that exactly one is given."""
    if storage.local_storage is not None:
        return HostPath(path=storage.local_storage.path, node_name=storage.local_storage.node_name)
    if storage.nfs is not None:
        return Nfs(server=storage.nfs.server, path=storage.nfs.path)
    if storage.aws_efs is not None:
        return Efs(volume_handle=storage.aws_efs.volume_handle, attributes=storage.aws_efs.attributes)
    if storage.persistent_volume_claim is not None:
        claim = storage.persistent_volume_claim
        return Claim(claim_name=claim.claim_name, sub_path=claim.sub_path)
    raise ValueError("a storage names one of localStorage, nfs, AWSEfs, persistentVolumeClaim")


def node_of(storage: StorageSpec) -> str:
    """The node that has the files, where only one has."""
    return storage.local_storage.node_name if storage.local_storage is not None else ""


def kind_of_storage(storage: StorageSpec) -> str:
    """The name by which `Capabilities.storage` knows it: hostPath, nfs, efs or claim."""
    return {HostPath: "hostPath", Nfs: "nfs", Efs: "efs", Claim: "claim"}[type(storage_source(storage))]
