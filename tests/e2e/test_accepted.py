"""What is accepted and cannot be done is said; what is wrong is refused with what to do."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.plane import ControlPlane, inference_model, model_version, until

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_manifests_of_the_seeds_are_accepted_unchanged(plane: ControlPlane) -> None:
    for manifest in sorted((EXAMPLES / "seeds").glob("*.yaml")):
        plane.kubectl("apply", "-f", str(manifest))
    assert "/foo" in plane.until_reason("mv", "mv-3", "StoragePathNotFound")
    assert "tensorflow" in plane.until_reason("infm", "facialexpression", "FrameworkUnavailable")
    events = plane.kubectl("get", "events", "-o", "json")
    told = [event["reason"] for event in json.loads(events)["items"]]
    assert told.count("NodeIsThisMachine") == 2


def test_what_needs_something_that_is_not_there_says_so(plane: ControlPlane, tmp_path: Path) -> None:
    training = {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "TrainingModel",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "modelName": "digits",
            "deployToLayer": "cloud",
            "frameworkType": "sklearn",
            "imageRepo": "modelhub/digits",
            "storage": {"localStorage": {"path": str(tmp_path)}},
        },
    }
    joint = {
        "apiVersion": "modelwright.dev/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": "joint", "namespace": "default"},
        "spec": {
            "edgeModel": {"name": "small"},
            "cloudModel": {"name": "large"},
            "hardExampleMining": {"policy": "confidence"},
            "gateway": {"nodeName": "here"},
        },
    }
    plane.apply(training, joint)
    assert "command" in plane.until_reason("tm", "train", "NeedsContainers")
    assert "small" in plane.until_reason("jis", "joint", "EdgeModelNotFound", "Reconciling")


def spec_of(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**base, "spec": {**base["spec"], **changes}}


@pytest.fixture
def version(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.bin").write_bytes(b"weights")
    return model_version("mv", tmp_path / "m")


def refused(plane: ControlPlane, body: dict[str, Any]) -> str:
    return plane.kubectl("apply", "-f", "-", stdin=json.dumps(body), code=1)


def test_what_is_wrong_in_a_manifest_is_refused_by_its_field(plane: ControlPlane, version: dict[str, Any]) -> None:
    two = {"localStorage": {"path": "/a", "nodeName": "n"}, "nfs": {"server": "s", "path": "/m"}}
    served = inference_model("m", modelVersion="mv")
    entry = {"version": "1", "downloadURL": "https://models.test/m.tar.gz"}
    cases: list[tuple[dict[str, Any], str]] = [
        (spec_of(version, colour="red"), "spec.colour"),
        ({**version, "spec": {"imageRepo": "a/b", "storage": version["spec"]["storage"]}}, "spec.modelName"),
        (spec_of(version, storage=two), "spec.storage"),
        (spec_of(version, storage={}), "spec.storage"),
        (spec_of(served, modelVersion="", manifest=[entry], targetVersion="2"), "targetVersion"),
        (spec_of(served, deployToLayer="edge"), "node"),
        (spec_of(served, deployToLayer="moon"), "spec.deployToLayer"),
        (spec_of(served, replicas=-1), "spec.replicas"),
        (spec_of(served, servingPort=70000), "spec.servingPort"),
        (spec_of(served, fraemworkType="onnx"), "frameworkType"),
    ]
    for body, expected in cases:
        told = refused(plane, body)
        assert expected in told, told
        own = plane.run("apply", "-f", "-", stdin=json.dumps(body), code=1)
        assert expected in own, own
    assert plane.kubectl("get", "modelwright", "-o", "name") == ""


def test_a_version_never_changes(plane: ControlPlane, version: dict[str, Any]) -> None:
    plane.apply(version)
    plane.until_ready("mv", "mv")
    told = refused(plane, spec_of(version, imageTag="other"))
    assert "never changes" in told


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        ("nothing", "StoragePathNotFound"),
        ("empty", "StorageEmpty"),
        ("link", "StorageNotPlain"),
        ("data", "StorageForbidden"),
    ],
)
def test_a_folder_that_cannot_be_packed_is_said_with_what_to_do(
    plane: ControlPlane, tmp_path: Path, make: str, reason: str
) -> None:
    path = tmp_path / "model"
    if make == "data":
        path = plane.data
    elif make != "nothing":
        path.mkdir()
    if make == "link":
        (path / "model.bin").symlink_to("/etc/passwd")
    plane.apply(model_version("mv", path))
    message = plane.until_reason("mv", "mv", reason)
    assert str(path) in message or "model.bin" in message
    assert plane.get("mv", "mv")["status"]["imageBuildPhase"] == "ImageBuildFailed"


def test_a_version_that_failed_is_tried_again_when_asked(plane: ControlPlane, tmp_path: Path) -> None:
    plane.apply(model_version("mv", tmp_path / "later"))
    plane.until_reason("mv", "mv", "StoragePathNotFound")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "model.bin").write_bytes(b"weights")
    plane.kubectl("annotate", "mv", "mv", "modelwright.dev/reconcile-requested-at=now")
    plane.until_ready("mv", "mv")


def test_a_tag_that_holds_other_content_is_never_overwritten(plane: ControlPlane, tmp_path: Path) -> None:
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.bin").write_bytes(content)
        plane.apply(model_version(f"mv-{name}", tmp_path / name, imageTag="stable"))
        if name != "c":
            plane.until_ready("mv", f"mv-{name}")
    digests = {name: plane.get("mv", f"mv-{name}")["status"]["imageDigest"] for name in ("a", "b")}
    assert digests["a"] == digests["b"]
    assert "stable" in plane.until_reason("mv", "mv-c", "ImageTagTaken")


def test_a_registry_that_is_down_is_tried_again(plane: ControlPlane, version: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    plane.apply(spec_of(version, imageRepo=f"127.0.0.1:{port}/m"))
    until(lambda: plane.get("mv", "mv")["status"].get("attempts", 0) >= 2, "a second attempt")
    ready = plane.condition("mv", "mv")
    assert ready["status"] == "False"
    assert plane.condition("mv", "mv", "Stalled")["status"] == "False"


def test_a_port_that_is_taken_is_said(plane: ControlPlane, version: dict[str, Any]) -> None:
    plane.apply(version)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        plane.apply(inference_model("m", modelVersion="mv", servingPort=port))

        def told() -> bool:
            return plane.condition("infm", "m").get("reason") == "PortTaken"

        until(told, "PortTaken is said")
        assert str(port) in plane.condition("infm", "m")["message"]


def test_a_suspended_object_is_left_alone_until_it_is_not(plane: ControlPlane, version: dict[str, Any]) -> None:
    suspended = {**version, "metadata": {**version["metadata"], "annotations": {"modelwright.dev/suspend": "true"}}}
    other = {**version, "metadata": {"name": "other", "namespace": "default"}}
    plane.apply(suspended)
    plane.apply(other)
    plane.until_ready("mv", "other")
    assert "status" not in plane.get("mv", "mv")
    plane.kubectl("annotate", "mv", "mv", "modelwright.dev/suspend-")
    plane.until_ready("mv", "mv")


def test_every_example_is_valid_yaml_that_the_api_accepts(plane: ControlPlane) -> None:
    """But for those of Kubernetes's own kinds, which it does not know."""
    for manifest in sorted(path for path in EXAMPLES.rglob("*.yaml") if path.parent.name != "pods"):
        text = manifest.read_text()
        assert list(yaml.safe_load_all(text))
        plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
