"""Versions of models, from each storage: mounted in a real Pod, packed, pushed, and pulled again."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, PodWatch, User, local, version
from tests.cluster.operator import Operator
from tests.cluster.rig import storage

SYSTEM_FOLDERS = ("/", "/etc", "/proc", "/root", "/var/lib/kubelet", "/var/lib/kubelet/pods")
STORAGES = ("foo", "cloud", "nfs", "efs", "efs-subpath", "efs-access-point", "efs-both", "claim")


@dataclass
class Case:
    """A ModelVersion, and the folder of this machine with its files."""

    manifest: JSON
    files: Path
    node: str = ""
    handle: str = ""
    before: dict[str, tuple[int, int, int, int, bytes]] = field(default_factory=dict)


@dataclass
class World:
    """All versions of this module: they are built at once, in one namespace, and each test looks at its own."""

    user: User
    pods: PodWatch
    cases: dict[str, Case]
    late: dict[str, Path]
    unreadable: Path


@pytest.fixture(scope="module")
def world(operator: Operator) -> Iterator[World]:
    with builds.user_of(operator.cluster) as user, builds.watched_pods(user) as pods:
        cases = _cases(user)
        for name, case in cases.items():
            builds.write_model(case.files, name, size=40 << 20 if name == "nfs" else 3 << 20)
            case.before = builds.seen(case.files)
        late, unreadable = _late(user), _node(user, "edge-0") / f"models/{user.namespace}/unreadable"
        builds.write_model(unreadable, "unreadable")
        (unreadable / "weights.bin").chmod(0o600)
        user.create(*_static_volume(user, "models"), *(case.manifest for case in cases.values()))
        user.create(*_waiting(user), *_forbidden(), version("unreadable", _at(user, "unreadable")))
        yield World(user, pods, cases, late, unreadable)
    user.cluster.run("delete", "pv", *(f"{user.namespace}-{claim}" for claim in ("models", "late")), "--wait=false")


def _cases(user: User) -> dict[str, Case]:
    own, state = user.namespace, user.cluster.state.storage
    exports, efs = Path(state.exports[storage.EXPORT]), Path(state.efs)
    fs, point = f"fs-{secrets.token_hex(4)}", f"fsap-{secrets.token_hex(8)}"
    edge, cloud = _node(user, "edge-0"), _node(user, "cloud-0")

    def of_efs(name: str, handle: str, folder: str) -> Case:
        where = {"AWSEfs": {"volumeHandle": handle, "attributes": {"encryptInTransit": "true"}}}
        return Case(version(name, where), efs / folder, handle=handle)

    nfs: JSON = {"nfs": {"server": state.server, "path": f"{storage.EXPORT}/{own}/nfs"}}
    claim: JSON = {"persistentVolumeClaim": {"claimName": "models", "subPath": "resnet/3"}}
    return {
        "foo": Case(version("foo", local("edge-0", "/foo")), edge / "foo", node="edge-0"),
        "cloud": Case(version("cloud", local("cloud-0", f"/m/{own}")), cloud / f"m/{own}", node="cloud-0"),
        "nfs": Case(version("nfs", nfs), exports / own / "nfs"),
        "efs": of_efs("efs", fs, f"{fs}"),
        "efs-subpath": of_efs("efs-subpath", f"{fs}0:/my/subpath", f"{fs}0/my/subpath"),
        "efs-access-point": of_efs("efs-access-point", f"{fs}::{point}", point),
        "efs-both": of_efs("efs-both", f"{fs}:/my/subpath:{point}0", f"{point}0/my/subpath"),
        "claim": Case(version("claim", claim), cloud / f"claims/{own}/models/resnet/3", node="cloud-0"),
    }


def _late(user: User) -> dict[str, Path]:
    """The folders that are not there yet."""
    exports = Path(user.cluster.state.storage.exports[storage.EXPORT])
    return {
        "late-folder": _node(user, "cloud-0") / f"models/{user.namespace}/late",
        "late-export": exports / user.namespace / "late",
        "late-claim": _node(user, "cloud-0") / f"claims/{user.namespace}/late",
    }


def _waiting(user: User) -> list[JSON]:
    server = user.cluster.state.storage.server
    return [
        version("late-folder", local("cloud-0", f"/models/{user.namespace}/late")),
        version("late-export", {"nfs": {"server": server, "path": f"{storage.EXPORT}/{user.namespace}/late"}}),
        version("late-claim", {"persistentVolumeClaim": {"claimName": "late"}}),
    ]


def _forbidden() -> list[JSON]:
    return [version(f"forbidden-{number}", local("edge-0", path)) for number, path in enumerate(SYSTEM_FOLDERS)]


def _at(user: User, name: str) -> JSON:
    return local("edge-0", f"/models/{user.namespace}/{name}")


def _node(user: User, name: str) -> Path:
    return next(Path(node.root) for node in user.cluster.nodes if node.name == name)


def _static_volume(user: User, claim: str) -> list[JSON]:
    """A folder of cloud-0 as an admin offers it, and the user's claim for it."""
    folder = _node(user, "cloud-0") / f"claims/{user.namespace}/{claim}"
    folder.mkdir(parents=True, exist_ok=True)
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["cloud-0"]}
    name = f"{user.namespace}-{claim}"
    volume = {
        "storageClassName": "",
        "capacity": size,
        "accessModes": modes,
        "claimRef": {"namespace": user.namespace, "name": claim},
        "local": {"path": f"/claims/{user.namespace}/{claim}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    wanted = {"storageClassName": "", "volumeName": name, "accessModes": modes, "resources": {"requests": size}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}, "spec": wanted},
    ]


# Waiting, and going on by itself ------------------------------------------------------------------------------------


MISSING = {"late-folder": "MountFailed", "late-export": "MountFailed", "late-claim": "ClaimNotFound"}
"""What each says while its storage is not there."""


@pytest.fixture(scope="module")
def told(world: World) -> dict[str, str]:
    """What those say that wait for their storage, which is made then."""
    said = {name: world.user.told(name, reason) for name, reason in MISSING.items()}
    for name, folder in world.late.items():
        builds.write_model(folder, name)
    world.user.create(*_static_volume(world.user, "late"))
    return said


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("late-folder", "/models/{namespace}/late"),
        ("late-export", "/models/{namespace}/late"),
        ("late-claim", "there is no PersistentVolumeClaim late in this namespace"),
    ],
)
def test_storage_that_is_missing_is_said_and_the_build_goes_on_by_itself_when_it_is_there(
    world: World, told: dict[str, str], name: str, message: str
) -> None:
    assert message.format(namespace=world.user.namespace) in told[name]
    world.user.ready(name)
    assert builds.pulled(world.user.version(name)["status"]["resolvedImage"]) == builds.files(world.late[name])
    world.user.warned_once(name, MISSING[name])


# Built --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STORAGES)
def test_a_model_of_each_storage_becomes_an_image_with_its_files(world: World, name: str) -> None:
    case = world.cases[name]
    world.user.ready(name)
    status = world.user.version(name)["status"]
    image = f"{world.user.cluster.registry}/modelhub/{name}@{status['imageDigest']}"
    assert status["resolvedImage"] == image
    assert builds.pulled(image) == builds.files(case.files)
    assert status["imageDigest"] == builds.digest_here(world.user.cluster, case.files)
    assert status["fileCount"] == len(builds.files(case.files))


@pytest.mark.parametrize("name", STORAGES)
def test_after_a_build_nothing_of_it_is_left_and_the_files_are_as_they_were(world: World, name: str) -> None:
    world.user.ready(name)
    world.user.cleared(name)
    case = world.cases[name]
    assert builds.seen(case.files) == case.before


@pytest.mark.parametrize("name", STORAGES)
def test_its_pod_ran_where_the_files_are_and_had_no_right_that_it_did_not_need(world: World, name: str) -> None:
    world.user.ready(name)
    found = world.user.version(name)
    last = world.pods.states(found["metadata"]["uid"])[-1]
    spec, (ended,) = last["spec"], last["status"]["containerStatuses"]
    assert spec["nodeName"] == (world.cases[name].node or spec["nodeName"])
    assert spec["automountServiceAccountToken"] is False
    assert [volume for volume in spec["volumes"] if "projected" in volume] == []
    (model,) = [mount for mount in ended["volumeMounts"] if mount["name"] == "model"]
    assert (model["mountPath"], model["readOnly"], model["recursiveReadOnly"]) == ("/workspace/build", True, "Enabled")
    assert ended["user"]["linux"] == {"uid": 65532, "gid": 65532, "supplementalGroups": [65532]}
    report = json.loads(ended["state"]["terminated"]["message"])
    assert report["result"]["digest"] == found["status"]["imageDigest"]


@pytest.mark.parametrize("name", [name for name in STORAGES if name.startswith("efs")])
def test_handle_and_attributes_reach_the_driver_of_efs(world: World, name: str) -> None:
    world.user.ready(name)
    handle = world.cases[name].handle
    asked = [each for each in storage.publications(world.user.cluster.name) if each.volume_handle == handle]
    assert asked
    assert {(each.read_only, each.error) for each in asked} == {(True, "")}
    assert asked[-1].volume_context == {"encryptInTransit": "true"}


def test_a_claim_of_the_user_stays(world: World) -> None:
    world.user.ready("claim")
    world.user.cleared("claim")
    assert world.user.get("pvc", "models")["status"]["phase"] == "Bound"


def test_where_an_image_comes_from_is_known_by_its_registry_alone(world: World) -> None:
    world.user.ready("foo")
    status = world.user.version("foo")["status"]
    told = builds.modelwright(
        "lineage", "--plain-http", status["resolvedImage"], "-o", "json", KUBECONFIG="/nowhere", HOME="/nowhere"
    )
    names = {node.get("name") for node in json.loads(told)["nodes"]}
    assert "foo" in names, told


# Refused ------------------------------------------------------------------------------------------------------------


def test_a_file_that_the_build_may_not_read_is_named_with_what_to_do_and_is_built_once_that_is_done(
    world: World,
) -> None:
    message = world.user.told("unreadable", "FileUnreadable")
    assert "weights.bin" in message
    assert f"/models/{world.user.namespace}/unreadable on the node edge-0" in message
    assert "user 65532" in message
    assert "build.runAsUser" in message
    assert "kubectl annotate mv/unreadable" in message
    world.user.cleared("unreadable")
    (world.unreadable / "weights.bin").chmod(0o644)
    world.user.try_again("unreadable")
    world.user.ready("unreadable")


@pytest.mark.parametrize(("number", "path"), list(enumerate(SYSTEM_FOLDERS)))
def test_a_folder_of_the_nodes_system_is_refused_and_nothing_is_made(world: World, number: int, path: str) -> None:
    name = f"forbidden-{number}"
    message = world.user.told(name, "StorageForbidden")
    assert f"localStorage.path {path} " in message
    assert "ask the cluster's admin" in message
    assert world.user.children(name) == []
    uid = world.user.version(name)["metadata"]["uid"]
    assert world.pods.states(uid) == []
    world.user.warned_once(name, "StorageForbidden")


@pytest.mark.parametrize(
    ("storage_", "message"),
    [
        ({"localStorage": {"path": "/models/../etc", "nodeName": "edge-0"}}, "without '.', '..'"),
        ({"localStorage": {"path": "models", "nodeName": "edge-0"}}, "must be an absolute path"),
        ({"localStorage": {"path": "/models"}}, "name the node that has the files"),
        ({"AWSEfs": {"volumeHandle": "e8a95a42"}}, "must be FILESYSTEM"),
        ({"AWSEfs": {"volumeHandle": "fs-e8a95a42:my/subpath:fsap-19f752f0068c22464"}}, "must be FILESYSTEM"),
        ({"AWSEfs": {"volumeHandle": "fs-e8a95a42:/a/../b:fsap-19f752f0068c22464"}}, "must be FILESYSTEM"),
        ({"AWSEfs": {"volumeHandle": "fs-e8a95a42::19f752f0068c22464"}}, "must be FILESYSTEM"),
        ({"persistentVolumeClaim": {"claimName": "models", "subPath": "../other"}}, "subPath"),
        ({"nfs": {"server": "nas example", "path": "/m"}}, "must be a host name or an IP address"),
        ({"nfs": {"server": "nas", "path": "/m"}, "persistentVolumeClaim": {"claimName": "models"}}, "exactly one"),
        ({}, "exactly one"),
    ],
)
def test_storage_that_cannot_be_is_refused_when_it_is_written(world: World, storage_: JSON, message: str) -> None:
    assert message in world.user.refused(version("refused", storage_))
