"""Where a model's files lie: exactly one of four places."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from modelwright.api.fields import Line, Name, Path, doc

MODEL_PATH = "/kubedl-model"
"""Where a training finds the storage, and where the model lies inside a model image."""


class LocalStorage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A folder or file on one node."""

    path: Annotated[Path, doc("The absolute path on the host.")]
    node_name: Annotated[
        Name, doc("The node that has the files: where the chief worker of the training wrote them.")
    ] = ""
    mount_path: Annotated[Path, doc("The absolute path inside training containers.")] = MODEL_PATH


class NFS(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """An export of an NFS server."""

    server: Annotated[Name, doc("The server's address, such as `nas.example.com`.")]
    path: Annotated[Path, doc("The absolute path under which the model is stored, such as `/models/my_model1`.")]
    mount_path: Annotated[Path, doc("The absolute path inside training containers.")] = MODEL_PATH


class AWSEfs(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A volume of AWS EFS, through its CSI driver."""

    volume_handle: Annotated[
        str,
        Meta(max_length=1024),
        doc(
            "`FILESYSTEM:/SUBPATH:ACCESSPOINT`, such as `fs-e8a95a42:/my/subpath:fsap-19f752f0068c22464`; without a "
            "subpath `FILESYSTEM::ACCESSPOINT`, without an access point `FILESYSTEM:/SUBPATH` or `FILESYSTEM`."
        ),
    ]
    attributes: Annotated[
        dict[str, Line], Meta(max_length=32), doc("Attributes passed to the CSI driver (string to string).")
    ] = {}


class PersistentVolumeClaim(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A claim in the same namespace."""

    claim_name: Annotated[Name, doc("The claim's name.")]
    sub_path: Annotated[Path, doc("The path inside the volume, relative; its root if absent.")] = ""


class Storage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Where the files are: exactly one of the four."""

    local_storage: Annotated[LocalStorage | None, doc("A path on one node.")] = None
    nfs: Annotated[NFS | None, doc("An NFS export.")] = None
    aws_efs: Annotated[AWSEfs | None, doc("A volume of AWS EFS.")] = msgspec.field(name="AWSEfs", default=None)
    persistent_volume_claim: Annotated[
        PersistentVolumeClaim | None, doc("A PersistentVolumeClaim in the same namespace.")
    ] = None
