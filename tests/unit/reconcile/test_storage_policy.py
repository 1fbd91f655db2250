"""What an admin's policy lets models be read from."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.reconcile.make import CLUSTER, HERE, NOW, model, reason, state, training, version

from modelwright.api.storage import NFS, AWSEfs, LocalStorage, PersistentVolumeClaim, Storage
from modelwright.ports.capabilities import StoragePolicy
from modelwright.reconcile import model_version, training_model
from modelwright.reconcile.host_paths import SYSTEM_FOLDERS
from modelwright.reconcile.nfs_servers import canonical
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.storage_policy import forbidden_storage

OPEN = StoragePolicy()
CLAIM = Storage(persistent_volume_claim=PersistentVolumeClaim(claim_name="models"))
EFS = Storage(aws_efs=AWSEfs(volume_handle="fs-e8a95a42:/dir1"))


def local(path: str) -> Storage:
    return Storage(local_storage=LocalStorage(path=path, node_name="n"))


def nfs(server: str, path: str = "/models") -> Storage:
    return Storage(nfs=NFS(server=server, path=path))


def said(storage: Storage, policy: StoragePolicy | None = OPEN) -> str:
    """The message of the refusal, empty if there is none."""
    finding = forbidden_storage(storage, policy)
    assert finding is None or finding.reason == "StorageForbidden"
    return finding.message if finding else ""


# Host paths ---------------------------------------------------------------------------------------------------------

NODES_OWN = [
    *(
        "/",
        "/etc",
        "/etc/",
        "/etc/kubernetes/pki",
        "//etc",
        "/./etc",
        "/etc/.",
        "/proc",
        "/proc/1/root/data",
        "/sys/fs",
    ),
    *("/dev/shm", "/boot", "/root", "/root/.kube", "/run/containerd", "/var/run/docker.sock", "/var/run", "/var/lock"),
    *("/bin", "/sbin/init", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/usr/share/models", "/snap", "/sysroot"),
    *("/var", "/var/", "/var/lib", "/var/lib/kubelet", "/var/lib/kubelet/pods/x", "/var/lib/containerd"),
    *(
        "/var/lib/docker",
        "/var/lib/containers",
        "/var/lib/cni",
        "/var/lib/etcd",
        "/var/lib/rancher",
        "/var/lib/kubeedge",
    ),
    *("/var/lib/postgresql", "/var/log", "/var/log/pods", "/var/spool/cron", "/var/backups", "/var/snap/microk8s"),
    *("/opt", "/opt/cni", "/opt/cni/bin", "/opt/local-path-provisioner/pvc-1", "/var/openebs/local"),
]
USERS = [
    *("/foo", "/tmp", "/tmp/models", "/home/x", "/home", "/data", "/mnt", "/mnt/disk1/m", "/srv/m", "/opt/models"),
    *(
        "/etcetera",
        "/rooted",
        "/variety",
        "/runs/42",
        "/usr2",
        "/var/models",
        "/var/tmp/m",
        "/var/library",
        "/media/usb",
    ),
    *("/data/etc", "/data/proc/1", "/models/", "/a..b", "/opt/cni2", "/workspace", "/export/var/lib/kubelet"),
]


@pytest.mark.parametrize("path", NODES_OWN)
def test_a_folder_of_the_nodes_system_is_refused(path: str) -> None:
    assert "the node's own" in said(local(path))


@pytest.mark.parametrize("path", USERS)
def test_any_other_folder_is_not(path: str) -> None:
    assert said(local(path)) == ""


@pytest.mark.parametrize("path", ["/data/..", "/data/../etc", "/data/link/../models", "data", "", "/data\0/x", ".."])
def test_a_path_whose_spelling_does_not_say_where_it_leads_is_refused(path: str) -> None:
    assert "without '..'" in said(local(path))
    assert "without '..'" in said(local(path), StoragePolicy(host_paths=("/",)))


@given(st.sampled_from(SYSTEM_FOLDERS), st.lists(st.sampled_from(["", ".", "models", "a"]), max_size=4))
@settings(max_examples=60)
def test_whatever_way_it_is_spelled_what_lies_in_a_system_folder_is_refused(folder: str, below: list[str]) -> None:
    assert said(local("/".join([folder, *below])))
    assert said(local(folder.replace("/", "//./") + "/" * len(below)))


@pytest.mark.parametrize("folder", SYSTEM_FOLDERS)
def test_whatever_holds_a_system_folder_is_refused(folder: str) -> None:
    assert all(said(local(str(parent))) for parent in PurePosixPath(folder).parents)


@pytest.mark.parametrize(
    ("allowed", "path", "fits"),
    [
        (("/data",), "/data", True),
        (("/data/",), "/data/m/", True),
        (("/data",), "/data2", False),
        (("/data",), "/foo", False),
        (("/data/models",), "/data", False),
        (("/foo", "/var/lib/models"), "/var/lib/models/m", True),
        (("/var/lib/models",), "/var/lib/kubelet", False),
        (("/",), "/etc", True),
        (("/data/../etc",), "/etc", False),
        (("/data/../etc",), "/data/etc", False),
    ],
)
def test_an_allow_list_names_all_that_is_allowed(allowed: tuple[str, ...], path: str, fits: bool) -> None:
    assert (said(local(path), StoragePolicy(host_paths=allowed)) == "") is fits


def test_a_refusal_says_where_what_is_wrong_and_what_to_do() -> None:
    message = said(local("/etc/models"))
    assert message.startswith("localStorage.path /etc/models lies in /etc, which is the node's own")
    assert "ask the cluster's admin" in message
    assert "holds /var/backups" in said(local("/var"))
    assert said(local("//etc/")).startswith("localStorage.path //etc/ is the node's own")
    shown = said(local("/foo"), StoragePolicy(host_paths=tuple(f"/data/{number}" for number in range(20))))
    assert "/data/7 and 12 more" in shown


# NFS ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "server", "fits"),
    [
        ("nas.example.com", "nas.example.com", True),
        ("nas.example.com", "NAS.Example.com.", True),
        ("NAS.example.com.", "nas.example.com", True),
        ("nas.example.com", "nas", False),
        ("nas", "nas.example.com", False),
        ("example.com", "nas.example.com", False),
        ("2001:db8::1", "2001:0DB8:0:0::1", True),
        ("[2001:db8::1]", "2001:db8:0:0:0:0:0:1", True),
        ("2001:db8::1", "2001:db8::2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "::ffff:c000:201", True),
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.10", False),
        ("192.0.2.1", "192.0.2.001", False),
        ("192.0.2.1", "0xc0000201", False),
        ("192.0.2.1", "3221225985", False),
    ],
)
def test_an_nfs_server_is_the_same_however_it_is_spelled(allowed: str, server: str, fits: bool) -> None:
    assert (said(nfs(server), StoragePolicy(nfs_servers=("other", allowed))) == "") is fits


@pytest.mark.parametrize(
    ("name", "target", "fits"),
    [
        ("mounttargetip", "10.0.0.9", False),
        ("MountTargetIp", "10.0.0.9", False),
        ("mounttargetip", "10.0.0.5", True),
        ("encryptInTransit", "false", True),
    ],
)
def test_what_efs_is_to_mount_from_is_an_nfs_server_too(name: str, target: str, fits: bool) -> None:
    storage = Storage(aws_efs=AWSEfs(volume_handle="fs-e8a95a42", attributes={name: target}))
    refusal = said(storage, StoragePolicy(nfs_servers=("10.0.0.5",)))
    assert (refusal == "") is fits
    assert fits or f"AWSEfs.attributes.{name} 10.0.0.9" in refusal
    assert said(storage) == ""


def test_without_a_list_any_nfs_server_is_allowed_and_the_hosts_paths_are_of_no_concern() -> None:
    assert said(nfs("nas", "/etc")) == ""
    assert said(nfs("nas"), StoragePolicy(host_paths=("/data",))) == ""
    assert "allows (nas)" in said(nfs("other"), StoragePolicy(nfs_servers=("nas",)))


@pytest.mark.parametrize("path", ["/models/../etc", "models", ""])
def test_an_export_that_climbs_is_refused(path: str) -> None:
    assert "nfs.path" in said(nfs("nas", path))


@given(st.ip_addresses())
@settings(max_examples=50)
def test_the_name_of_a_server_has_one_spelling(address: object) -> None:
    assert canonical(str(address)) == canonical(f"[{str(address).upper()}]")
    assert canonical(canonical(str(address))) == canonical(str(address))


# Volumes of our making ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("storage", "field"), [(local("/foo"), "localStorage"), (nfs("nas"), "nfs"), (EFS, "AWSEfs")], ids=str
)
def test_where_no_volumes_are_made_a_claim_is_what_remains(storage: Storage, field: str) -> None:
    closed = StoragePolicy(create_volumes=False, host_paths=("/",), nfs_servers=("nas",))
    message = said(storage, closed)
    assert message.startswith(f"storage.{field} needs a PersistentVolume")
    assert "storage.persistentVolumeClaim" in message
    assert said(storage) == ""
    assert said(CLAIM, closed) == ""


# What comes of it ---------------------------------------------------------------------------------------------------


def version_plan(storage: Storage, policy: StoragePolicy | None) -> Plan:
    here = msgspec.structs.replace(CLUSTER, default_registry="registry.test", storage_policy=policy)
    observed = model_version.Observed(model=model(), tasks=(), capabilities=here)
    return model_version.reconcile(version(storage=storage), observed, NOW)


def test_a_version_from_a_forbidden_place_is_stalled_and_builds_nothing() -> None:
    plan = version_plan(local("/etc"), OPEN)
    assert (plan.workloads, plan.requeue_after) == ((), None)
    assert reason(plan.status.conditions, "Stalled") == "StorageForbidden"
    assert plan.status.image_build_phase is None
    assert plan.status.message.startswith("localStorage.path /etc")


def test_the_seeds_folder_and_every_other_storage_is_built_from() -> None:
    for storage in (local("/foo"), nfs("nas"), EFS, CLAIM):
        assert len(version_plan(storage, OPEN).workloads) == 1


def test_where_there_is_no_policy_any_folder_is_built_from() -> None:
    observed = model_version.Observed(model=model(), tasks=(), capabilities=HERE)
    assert HERE.storage_policy is None
    assert len(model_version.reconcile(version(storage=local("/etc")), observed, NOW).workloads) == 1


def test_a_training_writes_to_no_forbidden_place() -> None:
    here = msgspec.structs.replace(CLUSTER, default_registry="registry.test", storage_policy=OPEN)
    observed = training_model.Observed(base=None, result=None, tasks=(), capabilities=here)
    plan = training_model.reconcile(training(storage=local("/var/lib/kubelet")), observed, NOW)
    assert plan.workloads == ()
    assert state(plan.status.conditions)["Stalled"] == "True"
    assert reason(plan.status.conditions, "Stalled") == "StorageForbidden"
    allowed = training_model.reconcile(training(storage=local("/foo")), observed, NOW)
    assert len(allowed.workloads) == 1
