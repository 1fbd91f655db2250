"""Versions that Kaniko builds: the real executor in a Pod, between the agent's two steps."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import builds
from tests.cluster.builds import JSON, PodWatch, User, local, version
from tests.cluster.operator import Operator
from tests.cluster.rig import storage
from tests.cluster.rig.images import BUSYBOX

NAMES = ("local", "export", "based")


class World:
    """All versions of this module: they are built at once, in one namespace that admits Kaniko."""

    def __init__(self, user: User, pods: PodWatch) -> None:
        self.user, self.pods = user, pods
        state = user.cluster.state
        node = next(node for node in state.nodes if node.name == "cloud-0")
        own = user.namespace
        self.folders = {
            "local": Path(node.root, "kaniko", own),
            "export": Path(state.storage.exports[storage.EXPORT], own),
            "based": Path(node.root, "based", own),
        }
        for name, folder in self.folders.items():
            builds.write_model(folder, name)
        self.before = {name: builds.seen(folder) for name, folder in self.folders.items()}
        export: JSON = {"nfs": {"server": state.storage.server, "path": f"{storage.EXPORT}/{own}"}}
        base = f"{user.cluster.registry}/{BUSYBOX}"
        user.create(
            self.version("local", local("cloud-0", f"/kaniko/{own}")),
            self.version("export", export, imageTag="v1"),
            self.version("based", local("cloud-0", f"/based/{own}"), baseImage=base),
        )

    def version(self, name: str, storage_: JSON, **spec: str) -> JSON:
        return version(name, storage_, **{"builder": "kaniko", "imageRepo": f"kaniko/{self.user.namespace}", **spec})

    def image(self, name: str) -> str:
        """The image of a version, once it is there."""
        self.user.ready(name)
        return str(self.user.version(name)["status"]["resolvedImage"])


@pytest.fixture(scope="module")
def world(operator: Operator) -> Iterator[World]:
    with builds.user_of(operator.cluster, "baseline") as user, builds.watched_pods(user) as pods:
        yield World(user, pods)


def inspected(image: str) -> JSON:
    """The configuration of an image of one platform."""
    command = ["skopeo", "inspect", "--config", "--tls-verify=false", f"docker://{image}"]
    found: JSON = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_kaniko_makes_an_image_that_has_the_files_and_leaves_them_as_they_were(world: World, name: str) -> None:
    assert builds.pulled(world.image(name)) == builds.files(world.folders[name])
    world.user.cleared(name)
    assert builds.seen(world.folders[name]) == world.before[name]


def test_the_status_is_as_after_a_native_build(world: World) -> None:
    image = world.image("export")
    status = world.user.version("export")["status"]
    assert status["image"] == f"kaniko/{world.user.namespace}:v1"
    assert status["resolvedImage"] == f"{world.user.cluster.registry}/kaniko/{world.user.namespace}@{image[-71:]}"
    assert status["imageDigest"] == image[-71:]
    assert status["imageBuildPhase"] == "ImageBuildSucceeded"
    assert status["fileCount"] == len(builds.files(world.folders["export"]))


def test_it_says_where_the_model_is_and_which_version_it_is_of(world: World) -> None:
    config = inspected(world.image("local"))["config"]
    assert "KUBEDL_MODEL_PATH=/kubedl-model" in config["Env"]
    uid = world.user.version("local")["metadata"]["uid"]
    assert config["Labels"] == {"modelwright.dev/model-version-uid": uid}


def test_a_base_image_is_below_the_model(world: World) -> None:
    found = inspected(world.image("based"))
    base = inspected(f"{world.user.cluster.registry}/{BUSYBOX}")
    assert found["rootfs"]["diff_ids"][: len(base["rootfs"]["diff_ids"])] == base["rootfs"]["diff_ids"]
    assert "PATH=/bin" in found["config"]["Env"]


def test_its_lineage_names_the_builder(world: World) -> None:
    told = builds.modelwright("lineage", "--plain-http", world.image("local"), KUBECONFIG="/nowhere", HOME="/nowhere")
    assert "modelversion/local" in told
    assert "kaniko" in told


def test_the_executor_is_the_only_root_and_the_model_is_read_only_to_all(world: World) -> None:
    world.image("local")
    last = world.pods.states(world.user.version("local")["metadata"]["uid"])[-1]
    statuses = [*last["status"]["initContainerStatuses"], *last["status"]["containerStatuses"]]
    users = {each["name"]: each["user"]["linux"]["uid"] for each in statuses}
    assert users == {"prepare": 65532, "kaniko": 0, "finish": 65532}
    assert last["spec"]["automountServiceAccountToken"] is False
    for each in statuses:
        (mount,) = [mount for mount in each["volumeMounts"] if mount["name"] == "model"]
        assert (mount["mountPath"], mount["readOnly"]) == ("/workspace/build", True)
    executor = next(each for each in last["spec"]["initContainers"] if each["name"] == "kaniko")
    assert executor["securityContext"]["allowPrivilegeEscalation"] is False
    assert executor["image"].startswith(f"{world.user.cluster.registry}/kaniko/executor:")


def test_a_tag_that_somebody_else_has_is_not_overwritten(world: World) -> None:
    digest = world.image("export")[-71:]
    taken = world.version("taken", local("cloud-0", f"/kaniko/{world.user.namespace}"), imageTag="v1")
    world.user.create(taken)
    message = world.user.told("taken", "ImageTagTaken")
    assert "choose another imageTag" in message
    assert world.user.condition("taken", "Stalled")["status"] == "True"
    repository = f"{world.user.cluster.registry}/kaniko/{world.user.namespace}"
    command = ["skopeo", "inspect", "--format", "{{.Digest}}", "--tls-verify=false", f"docker://{repository}:v1"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == digest


def test_a_namespace_that_admits_no_root_is_named_with_the_command_that_has_it_built(operator: Operator) -> None:
    with builds.user_of(operator.cluster) as user:
        node = next(node for node in user.cluster.nodes if node.name == "cloud-0")
        builds.write_model(Path(node.root, "kaniko", user.namespace), "restricted")
        user.create(version("mine", local("cloud-0", f"/kaniko/{user.namespace}"), builder="kaniko"))
        message = user.told("mine", "PodSecurityForbids")
        command = f"kubectl label --overwrite ns {user.namespace} pod-security.kubernetes.io/enforce=baseline"
        assert command in message
        assert "builder native" in message
        user.cluster.run(*command.split()[1:])
        user.try_again("mine")
        user.ready("mine")
        user.cleared("mine")
