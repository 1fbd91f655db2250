"""What is told of a storage that a node cannot mount."""

from __future__ import annotations

import pytest

from modelwright.adapters.kubernetes.workloads.events import mount_failed

VOLUME = "modelwright-49717710258a7a69a4c57dc68e8483ae"
LOCAL = f'MountVolume.NewMounter initialization failed for volume "{VOLUME}" : path "/missing" does not exist'
NFS = f"""MountVolume.SetUp failed for volume "{VOLUME}" : mount failed: exit status 32
Mounting command: mount
Mounting arguments: -t nfs -o ro nas:/models/missing /var/lib/kubelet/pods/6ad8/volumes/kubernetes.io~nfs/{VOLUME}
Output: mount.nfs: nas:/models/missing: access: refused by server
"""
EFS = f'MountVolume.SetUp failed for volume "{VOLUME}" : rpc error: code = Internal desc = Could not mount "fs-1:/"'
SUMMED_UP = "Unable to attach or mount volumes: unmounted volumes=[model]: timed out waiting for the condition"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (LOCAL, 'path "/missing" does not exist'),
        (NFS, "mount.nfs: nas:/models/missing: access: refused by server"),
        (EFS, 'Could not mount "fs-1:/"'),
        (SUMMED_UP, SUMMED_UP),
    ],
)
def test_of_what_a_node_says_the_cause_is_told_and_what_to_do(message: str, why: str) -> None:
    told = mount_failed(message)
    assert told.startswith(f"the node cannot mount the model's storage: {why}: have that mended")
    assert "goes on by itself" in told
    assert VOLUME not in told
    assert "\n" not in told
