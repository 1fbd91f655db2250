"""What is said of a volume that cannot be mounted: what the user wrote, why, and what to do, in one line."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.kubernetes_workloads.support import JSON

from modelwright.adapters.kubernetes.workloads.kinds import PersistentVolume
from modelwright.adapters.kubernetes.workloads.mount_words import cannot_be_mounted, heals, is_summary

PV = "modelwright-438659fe872a43da5872904fbe60d591"
LOCAL: JSON = {"local": {"path": "/missing"}}
NFS: JSON = {"nfs": {"server": "nas", "path": "/models"}}
EFS: JSON = {"csi": {"driver": "efs.csi.aws.com", "volumeHandle": "fs-1::fsap-2"}}
REFUSED = f"""MountVolume.SetUp failed for volume "{PV}" : mount failed: exit status 32
Mounting command: mount
Mounting arguments: -t nfs -o ro nas:/models /var/lib/kubelet/pods/1/volumes/kubernetes.io~nfs/{PV}
Output: mount.nfs: access denied by server
while mounting nas:/models
"""
NO_FOLDER = f'MountVolume.NewMounter initialization failed for volume "{PV}" : path "/missing" does not exist'
NO_DRIVER = "driver name efs.csi.aws.com not found in the list of registered CSI drivers"
NO_TARGET = f'MountVolume.SetUp failed for volume "{PV}" : rpc error: code = Internal desc = no mount target'
NO_DRIVER_AT_ALL = f'MountVolume.MountDevice failed for volume "{PV}" : kubernetes.io/csi: {NO_DRIVER}'
WAITED = "Unable to attach or mount volumes: unmounted volumes=[model]: timed out waiting for the condition"


@pytest.mark.parametrize(
    ("spec", "message", "starts", "has"),
    [
        (LOCAL, NO_FOLDER, '/missing cannot be mounted on the node n: path "/missing" does not exist; make that', ""),
        (
            NFS,
            REFUSED,
            "the NFS export nas:/models cannot be mounted on the node n: mount.nfs: access denied by",
            "let",
        ),
        (EFS, NO_TARGET, "the EFS volume fs-1::fsap-2 cannot be mounted on the node n: no mount target; let", ""),
        (EFS, NO_DRIVER_AT_ALL, "the EFS volume fs-1::fsap-2 cannot be mounted on the node n: ", "install that CSI"),
        (None, NO_TARGET, "the volume of its claim cannot be mounted on the node n: no mount target; mend", ""),
        (NFS, WAITED, "the NFS export nas:/models cannot be mounted on the node n: Unable to attach", "timed out"),
        (NFS, "x" * 9000, "the NFS export nas:/models cannot be mounted on the node n: xxx", "xxx...; let"),
        ({}, "odd", "the model's volume cannot be mounted on the node n: odd", ""),
    ],
)
def test_what_the_user_wrote_is_named(spec: JSON | None, message: str, starts: str, has: str) -> None:
    volume = None if spec is None else a_volume(spec)
    text = cannot_be_mounted(message, volume, "n")
    assert text.startswith(starts)
    assert has in text
    assert PV not in text
    assert "\n" not in text
    assert len(text) < 900
    assert text.endswith("and the build goes on by itself")


def test_another_volume_of_the_pod_is_not_taken_for_the_models() -> None:
    message = 'MountVolume.SetUp failed for volume "docker-config" : failed to sync secret cache'
    text = cannot_be_mounted(message, None, "n")
    assert (
        text
        == "the volume docker-config of the build's Pod cannot be mounted on the node n: failed to sync secret cache"
    )


UNBOUND = (
    "Unable to attach or mount volumes: failed to process volumes=[model]: error processing PVC b: PVC is not bound"
)
UNRELATED = 'User "system:node:n" cannot get: no relationship found between node "n" and this object'


@pytest.mark.parametrize("message", [UNBOUND, UNRELATED])
def test_what_heals_by_itself_is_passed_over(message: str) -> None:
    assert heals(message)
    assert not heals(REFUSED)
    assert is_summary(WAITED)
    assert not is_summary(REFUSED)


def a_volume(spec: JSON) -> PersistentVolume:
    return msgspec.convert({"metadata": {"name": PV}, "spec": spec}, PersistentVolume)
