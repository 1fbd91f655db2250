"""The server of each framework, those that an admin adds, and what is said where there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import operator as operators
from tests.cluster.operator import Operator
from tests.cluster.rig.manifests import container, pod
from tests.cluster.rig.waiting import until
from tests.cluster.serving import models
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.models import File
from tests.cluster.serving.team import Team, ask, manifest, team_of

SAVE = """
import tensorflow as tf

class Adds(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def adds(self, x):
        return {"y": x + 6.0}

module = Adds()
tf.saved_model.save(module, "/saved/model", signatures=module.adds)
"""


@pytest.fixture(scope="module")
def team(operator: Operator, shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("runtimes")
    fitted = models.tar(models.sklearn_model(folder / "fitted", 8), folder / "fitted.tar")
    with team_of(operator.cluster) as found:
        source = {"manifest": shelf.manifest("v1"), "targetVersion": "v1"}
        url = shelf.downloads.give(fitted)
        fits = {"manifest": manifest(v8=(url, fitted.sha256)), "targetVersion": "v8"}
        found.serve("sklearn", **fits, frameworkType="sklearn")
        flat = models.tar_gz(shelf.model("v1"), folder / "flat.tar.gz")
        plain = {"manifest": manifest(v1=(shelf.downloads.give(flat), flat.sha256)), "targetVersion": "v1"}
        found.serve("files", **plain, frameworkType="files")
        for framework in ("broken", "unheard-of"):
            found.serve(framework, **source, frameworkType=framework)
        yield found


def test_sklearn_is_served_by_its_image(team: Team) -> None:
    team.ready("sklearn")
    assert team.value("sklearn") == 8


def test_a_runtime_of_an_admin_is_started_as_its_template_has_it(team: Team, shelf: Shelf) -> None:
    team.ready("files")
    (served,) = team.pods("files")
    assert served["spec"]["containers"][0]["command"][-1].endswith("httpd -f -p 8501")
    url = team.url("files").replace("/v1/models/files", "/model.onnx")
    assert ask(url, body=None).body == (shelf.model("v1") / "model.onnx").read_bytes()


def test_what_is_wrong_in_a_template_is_said_to_who_uses_it(team: Team) -> None:
    assert "readyPath is missing" in team.said("broken", "RuntimeInvalid")
    assert team.owned(team.uid("broken")) == []


def test_an_unknown_framework_is_told_what_there_is(team: Team) -> None:
    message = team.said("unheard-of", "FrameworkUnavailable")
    assert "unheard-of" in message
    assert all(framework in message for framework in ("files", "onnx", "sklearn", "tensorflow"))
    team.change("unheard-of", frameworkType="onnx")
    team.ready("unheard-of")
    assert team.value("unheard-of") == 1


# TensorFlow ---------------------------------------------------------------------------------------------------------


def saved_model(operator: Operator, folder: Path) -> File:
    """A SavedModel (y = x + 6), written by the TensorFlow of the server's image: there is none on this machine."""
    cluster, node = operator.cluster, "cloud-0"
    with team_of(cluster, "privileged") as writer:
        image = f"{cluster.registry}/{operators.TENSORFLOW}"
        mounts = [{"name": "saved", "mountPath": "/saved"}]
        script = container(
            cluster.registry,
            "python3.11",
            "-c",
            SAVE,
            image=image,
            volumeMounts=mounts,
            securityContext={"runAsUser": 0},
        )
        path = f"/var/saved/{writer.namespace}"
        volumes = [{"name": "saved", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}]
        own = pod("saves", script, volumes=volumes, restartPolicy="Never", nodeName=node, securityContext={})
        writer.create(own)
        phase = ("get", "pod", "saves", "-o", "jsonpath={.status.phase}")
        until(lambda: writer.kubectl(*phase) in {"Succeeded", "Failed"}, "the model to be written", 300)
        assert writer.kubectl(*phase) == "Succeeded", writer.kubectl("logs", "saves")
    return models.tar_gz(Path(cluster.node(node).root, path.lstrip("/"), "model"), folder / "saved.tar.gz")


def test_tensorflow_is_served_by_our_server_where_an_admin_has_chosen_it(
    operator: Operator, team: Team, shelf: Shelf, tmp_path: Path
) -> None:
    operators.push_tensorflow(operator.cluster)
    saved = saved_model(operator, tmp_path)
    url = shelf.downloads.give(saved)
    source = {"manifest": manifest(v6=(url, saved.sha256)), "targetVersion": "v6"}
    team.serve("tensorflow", **source, frameworkType="tensorflow", nodeName="cloud-0")
    team.ready("tensorflow")
    assert team.value("tensorflow") == 6
    metadata = team.ask("tensorflow", "/metadata", body=None).json
    assert "serving_default" in json.dumps(metadata)
