"""What goes wrong in the cloud is said, what serves goes on serving, and nothing stays behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.cluster.builds import local
from tests.cluster.builds import version as model_version
from tests.cluster.operator import Operator
from tests.cluster.rig.waiting import until
from tests.cluster.serving import models
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.models import File
from tests.cluster.serving.team import Team, manifest, team_of

CLOUD = "cloud-0"


class World(msgspec.Struct, frozen=True):
    """The models of this module that are applied at once."""

    team: Team
    shelf: Shelf
    big: File


@pytest.fixture(scope="module")
def world(operator: Operator, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("faults")
    big = models.file(models.onnx_model(folder / "big", 7, mebibytes=200) / "model.onnx")
    with team_of(operator.cluster) as team:
        usual = shelf.manifest("v1", "bad")
        team.serve("bad", manifest=usual, targetVersion="bad")
        team.serve("memory", manifest=manifest(v7=(shelf.downloads.give(big), big.sha256)), targetVersion="v7",
                   resources={"limits": {"memory": "160Mi"}})  # fmt: skip
        root = Path(team.cluster.node(CLOUD).root)
        for name, value in (("deleted", 2), ("scaled", int.from_bytes(os.urandom(2)))):
            models.onnx_model(root / f"models/{team.namespace}/{name}", value)
            team.create(model_version(name, local(CLOUD, f"/models/{team.namespace}/{name}")))
            team.serve(name, modelVersion=name)
        yield World(team, shelf, big)


def test_a_model_that_does_not_load_says_what_is_wrong_with_it(world: World) -> None:
    message = world.team.said("bad", "ModelInvalid")
    assert "model.onnx" in message
    assert world.team.conditions("bad")["Stalled"]["status"] == "True"
    assert world.team.conditions("bad")["Available"]["status"] == "False"
    assert "url" not in world.team.status("bad")
    world.team.change("bad", targetVersion="v1")
    world.team.ready("bad")
    assert world.team.value("bad") == 1


def test_a_model_too_big_for_its_memory_says_so_and_serves_with_more(world: World) -> None:
    assert "resources.limits.memory" in world.team.said("memory", "OOMKilled")
    world.team.change("memory", resources={"limits": {"memory": "1Gi"}})
    world.team.ready("memory")
    assert world.team.value("memory") == 7


def test_a_deleted_model_version_goes_on_being_served_and_this_is_said(world: World) -> None:
    world.team.ready("deleted")
    world.team.kubectl("delete", "modelversion", "deleted")
    message = world.team.said("deleted", "ModelVersionNotFound")
    assert "served" in message
    assert world.team.conditions("deleted")["Available"]["status"] == "True"
    assert world.team.value("deleted") == 2
    (pod,) = world.team.pods("deleted")
    world.team.kubectl("delete", "pod", pod["metadata"]["name"])
    world.team.wait(lambda: world.team.status("deleted")["readyReplicas"] == 1, "another Pod of it", "deleted")
    assert world.team.value("deleted") == 2


def test_more_replicas_wait_for_a_registry_that_is_gone_while_the_others_serve(world: World) -> None:
    """The node that is left to them has never had the model, which is a volume or unpacked by then."""
    cluster = world.team.cluster
    world.team.ready("scaled")
    value, (pod,) = world.team.value("scaled"), world.team.pods("scaled")
    here = pod["spec"]["nodeName"]
    cluster.run("cordon", here)
    cluster.stop("registry")
    try:
        world.team.kubectl("scale", "infm/scaled", "--replicas=2")
        message = world.team.said("scaled", "ImagePullFailed", "RegistryUnreachable")
        assert "trying again" in message
        assert world.team.conditions("scaled")["Available"]["status"] == "True"
        assert world.team.value("scaled") == value
    finally:
        cluster.start("registry")
        cluster.run("uncordon", here)
    world.team.ready("scaled")
    assert world.team.status("scaled")["readyReplicas"] == 2


def test_a_model_that_is_deleted_while_it_downloads_leaves_nothing(world: World) -> None:
    url = world.shelf.downloads.give(world.big, "deleted.onnx", rate=4 << 20)
    world.team.serve("going", manifest=manifest(v7=(url, world.big.sha256)), targetVersion="v7")
    world.team.said("going", "Fetching")
    world.team.wait(lambda: "deleted.onnx" in world.shelf.downloads.begun, "the download to begin", "going")
    uid = world.team.uid("going")
    assert world.team.owned(uid)
    world.team.kubectl("delete", "infm", "going")
    until(lambda: world.team.owned(uid) == [], "nothing to be left of it", 120)
    until(lambda: world.shelf.downloads.count("deleted.onnx") > 0, "the download to end")
    assert world.shelf.downloads.sent("deleted.onnx") < world.big.size


def test_a_namespace_goes_with_all_that_is_served_in_it(operator: Operator, shelf: Shelf) -> None:
    with team_of(operator.cluster) as team:
        team.serve("first", manifest=shelf.manifest("v1"), targetVersion="v1")
        team.ready("first")
        team.cluster.run("delete", "namespace", team.namespace, "--wait=false")
        gone = ("wait", "--for=delete", f"namespace/{team.namespace}", "--timeout=180s")
        team.cluster.run(*gone)
        team.cluster.run("create", "namespace", team.namespace)  # the test's own way to end


def test_a_service_that_is_somebody_elses_is_left_alone(world: World) -> None:
    """The model is exposed by a Service of another name."""
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken"},
        "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 80}]},
    }
    world.team.create(theirs)
    world.team.serve("taken", manifest=world.shelf.manifest("v1"), targetVersion="v1")
    world.team.ready("taken")
    assert world.team.value("taken") == 1
    assert world.team.get("service", "taken")["spec"]["selector"] == {"app": "theirs"}


def test_what_others_change_is_put_right(world: World) -> None:
    world.team.serve("kept", manifest=world.shelf.manifest("v1"), targetVersion="v1")
    world.team.ready("kept")
    (deployment,) = (each for each in world.team.owned(world.team.uid("kept")) if each.startswith("Deployment/"))
    world.team.kubectl("scale", deployment, "--replicas=3")
    until(lambda: world.team.get(deployment)["spec"]["replicas"] == 1, "one replica again")
    world.team.kubectl("delete", deployment, "service/kept")
    world.team.wait(lambda: deployment in world.team.owned(world.team.uid("kept")), "the Deployment again", "kept")
    world.team.ready("kept")
    assert world.team.value("kept") == 1
