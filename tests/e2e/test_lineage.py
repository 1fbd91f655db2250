"""From data to answer and back: lineage and differences as a user asks for them, against real control planes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.load import OPENER
from tests.e2e.plane import ControlPlane, inference_model, model_version, until

JSON = dict[str, Any]
LARGE = 9_000_000
SOURCE = {"repo": "https://code.test/digits", "revision": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d"}

TRAIN = """
import json, os, pathlib
model = pathlib.Path(os.environ["KUBEDL_MODEL_PATH"])
base = pathlib.Path(os.environ["KUBEDL_BASE_MODEL_PATH"]) / "model.txt"
rows = next((pathlib.Path(os.environ["MODELWRIGHT_DATASETS"]) / "rows").iterdir()).read_text()
(model / "model.txt").write_text(base.read_text() + rows)
(model / ".modelwright").mkdir(exist_ok=True)
(model / ".modelwright/metrics.json").write_text(json.dumps({"accuracy": 0.75}))
"""


def folder(path: Path, **files: str | bytes) -> Path:
    path.mkdir(parents=True)
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (path / name.replace("__", ".")).write_bytes(data)
    return path


def training_model(name: str, storage: Path, **spec: Any) -> JSON:
    return {
        "apiVersion": "sedna.io/v1alpha1",
        "kind": "TrainingModel",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {
                "org.opencontainers.image.source": SOURCE["repo"],
                "org.opencontainers.image.revision": SOURCE["revision"],
            },
        },
        "spec": {
            "modelName": "digits",
            "deployToLayer": "cloud",
            "command": [sys.executable, "-c", TRAIN],
            "imageRepo": "modelhub/digits",
            "storage": {"localStorage": {"path": str(storage)}},
            **spec,
        },
    }


def lineage(plane: ControlPlane, word: str, *more: str) -> tuple[dict[str, JSON], set[tuple[str, str, str]]]:
    """Nodes by id, and edges."""
    document = json.loads(plane.run("lineage", word, "-o", "json", *more))
    assert document["kind"] == "Lineage"
    nodes = {node["id"]: node for node in document["nodes"]}
    return nodes, {(edge["from"], edge["role"], edge["to"]) for edge in document["edges"]}


def fetch(url: str) -> JSON:
    with OPENER.open(url, timeout=60) as answer:
        found: JSON = json.load(answer)
    return found


def test_a_training_can_be_traced_from_its_data_to_what_serves_it(plane: ControlPlane, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2,3\n")
    base = folder(tmp_path / "base", model__txt="base")
    plane.apply(model_version("base", base, createdBy="ann", imageTag="base"))
    plane.until_ready("mv", "base")
    digest = hashlib.sha256(rows.read_bytes()).hexdigest()
    plane.apply(
        training_model(
            "trained",
            tmp_path / "out",
            baseModelVersion="base",
            datasets=[{"name": "rows", "uri": rows.as_uri()}],
            env=[{"name": "SEED", "value": "7"}, {"name": "HF_TOKEN", "value": "canary-5ecret"}],
        ),
        inference_model("digits", modelVersion="trained", frameworkType="sklearn", replicas=0),
    )
    plane.until_ready("tm", "trained")
    made = plane.until_ready("mv", "trained")
    assert made["status"]["fileCount"] == 1

    nodes, edges = lineage(plane, "trained")
    dataset = f"dataset/{digest[:12]}"
    assert edges == {
        (dataset, "dataset", "trainingmodel/trained"),
        ("modelversion/base", "base", "trainingmodel/trained"),
        ("trainingmodel/trained", "training", "modelversion/trained"),
        ("modelversion/trained", "serving", "inferencemodel/digits"),
    }
    assert nodes[dataset]["digest"] == f"sha256:{digest}"
    assert nodes["modelversion/trained"]["metrics"] == {"accuracy": 0.75}
    assert nodes["trainingmodel/trained"]["source"] == SOURCE
    assert nodes["trainingmodel/trained"]["parameters"]["SEED"] == "7"
    for word in ("infm/digits", "tm/trained"):
        assert lineage(plane, word)[1] == edges
    for word in (dataset, "dataset/rows"):
        assert lineage(plane, word)[1] == {edge for edge in edges if edge[1] != "base"}
    text = plane.run("lineage", "trained")
    assert "trained by: trainingmodel/trained  Succeeded" in text
    assert "served by: inferencemodel/digits" in text
    for form, word in (("mermaid", "flowchart LR"), ("dot", "digraph lineage {")):
        assert plane.run("lineage", "trained", "-o", form).startswith(word)
    assert "canary" not in text + plane.run("lineage", "trained", "-o", "json")

    # The registry alone tells the same, and goes on to the base version.
    resolved = made["status"]["resolvedImage"]
    nodes, edges = lineage(plane, resolved)
    kinds = {(nodes[source]["kind"], role, nodes[target]["kind"]) for source, role, target in edges}
    assert kinds == {
        ("Dataset", "dataset", "TrainingModel"),
        ("Image", "base", "TrainingModel"),
        ("TrainingModel", "training", "ModelVersion"),
        ("ModelVersion", "packed", "Image"),
    }
    told = {node["name"]: node for node in nodes.values() if node["kind"] == "ModelVersion"}
    assert told["trained"]["metrics"] == {"accuracy": 0.75}
    assert told["base"]["createdBy"] == "ann"
    assert nodes[next(id_ for id_ in nodes if id_.startswith("trainingmodel/"))]["source"] == SOURCE
    assert "Made from" in plane.run("lineage", f"{plane.registry}/{made['status']['image']}")

    # And so does any client: the referrer is plain OCI.
    listed = fetch(f"{plane.url}/v2/modelhub/digits/referrers/{made['status']['imageDigest']}")
    (entry,) = listed["manifests"]
    assert entry["artifactType"] == "application/vnd.in-toto+json"
    layer = fetch(f"{plane.url}/v2/modelhub/digits/manifests/{entry['digest']}")["layers"][0]
    statement = fetch(f"{plane.url}/v2/modelhub/digits/blobs/{layer['digest']}")
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert "canary" not in json.dumps(statement)
    inspected = plane.run("image", "inspect", resolved)
    assert "https://slsa.dev/provenance/v1" in inspected
    assert f"modelwright lineage {resolved}" in inspected


def test_a_version_of_hand_tells_its_lineage_without_any_training(plane: ControlPlane, tmp_path: Path) -> None:
    made = {
        "parents": ["never-built"],
        "datasets": [{"name": "rows", "uri": "https://me:pass@data.test/rows.csv"}],
        "source": SOURCE,
        "parameters": {"lr": "0.1"},
        "metrics": {"f1": 0.5},
        "trainingModel": "elsewhere",
    }
    plane.apply(model_version("hand", folder(tmp_path / "m", model__txt="x"), lineage=made))
    status = plane.until_ready("mv", "hand")["status"]
    nodes, _ = lineage(plane, "hand")
    assert {name for name, node in nodes.items() if node.get("missing")} == {
        "modelversion/never-built",
        "trainingmodel/elsewhere",
    }
    attached, _ = lineage(plane, status["resolvedImage"])
    (version,) = (node for node in attached.values() if node["name"] == "hand")
    assert version["metrics"] == {"f1": 0.5}
    (training,) = (node for node in attached.values() if node["kind"] == "TrainingModel")
    assert (training["parameters"], training["source"]) == ({"lr": "0.1"}, SOURCE)
    assert "pass" not in json.dumps(attached).replace("passed", "")


def test_asking_again_for_a_build_attaches_nothing_new_and_a_restart_changes_no_story(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.apply(model_version("v1", folder(tmp_path / "m", model__txt="x"), createdBy="ann"))
    status = plane.until_ready("mv", "v1")["status"]
    where = f"{plane.url}/v2/modelhub/digits/referrers/{status['imageDigest']}"
    before = fetch(where)
    plane.kubectl("annotate", "mv/v1", "modelwright.dev/reconcile-requested-at=now")
    until(lambda: plane.get("mv", "v1")["status"].get("lastHandledReconcileAt") == "now", "the request is handled")
    plane.apply(model_version("same", tmp_path / "m", createdBy="ann", imageTag="same"))
    plane.until_ready("mv", "same")
    assert len(fetch(where)["manifests"]) == len(before["manifests"]) + 1, "another version of the same content"
    told = plane.run("lineage", status["resolvedImage"])
    assert "modelversion/same" in told
    assert "modelversion/v1" in told
    assert plane.stop() == 0
    plane.start()
    assert plane.run("lineage", status["resolvedImage"]) == told


def test_what_is_asked_wrongly_is_told_what_to_do(plane: ControlPlane, tmp_path: Path) -> None:
    plane.apply(
        model_version("twice", folder(tmp_path / "m", model__txt="x")),
        inference_model("twice", modelVersion="twice", replicas=0),
    )
    assert "modelversion/twice, inferencemodel/twice" in plane.run("lineage", "twice", code=2)
    assert "there is no nothing" in plane.run("lineage", "nothing", code=1)
    assert "KIND/NAME" in plane.run("lineage", "pod/x", code=2)
    assert "has no image" in plane.run("lineage", f"{plane.registry}/no/where:v1", code=1)
    assert "is no ModelVersion" in plane.run("diff", "twice", "infm/twice", code=2)
    assert "not found" in plane.run("diff", "twice", "nothing", code=1)


def test_two_versions_are_compared_by_their_images(plane: ControlPlane, tmp_path: Path) -> None:
    weights = os.urandom(LARGE)
    one = folder(tmp_path / "one", weights__bin=weights, config__json="{}", labels__txt="a")
    two = folder(tmp_path / "two", weights__bin=weights, config__json='{"x": 1}', more__txt="b")
    three = folder(tmp_path / "three", weights__bin=os.urandom(LARGE), config__json="{}", labels__txt="a")
    (one / ".modelwright").mkdir()
    (one / ".modelwright/metrics.json").write_text('{"loss": 0.5}')
    plane.apply(
        model_version("v1", one, lineage={"parameters": {"lr": "0.1"}}),
        model_version("v2", two, lineage={"parameters": {"lr": "0.2"}, "metrics": {"loss": 0.25}, "parents": ["v1"]}),
        model_version("v3", three),
        model_version("never", tmp_path / "nothing"),
    )
    for name in ("v1", "v2", "v3"):
        plane.until_ready("mv", name)
    plane.until_reason("mv", "never", "StoragePathNotFound")
    text = plane.run("diff", "v1", "mv/v2")
    assert "+ more.txt  1 B" in text
    assert "- labels.txt  1 B" in text
    assert "~ config.json  2 B -> 8 B" in text
    assert "weights.bin" not in text
    assert "1 layer shared (9.0 MB)" in text
    assert [word for line in text.splitlines() if line.startswith("loss") for word in line.split()] == [
        "loss",
        "0.5",
        "0.25",
        "-0.25",
    ]

    told = json.loads(plane.run("diff", "v1", "v3", "-o", "json"))
    assert (told["kind"], told["files"]["added"], told["files"]["removed"]) == ("ModelVersionDiff", [], [])
    (changed,) = told["files"]["changed"]
    assert (changed["path"], changed["to"]["sizeBytes"], "digest" in changed["to"]) == ("weights.bin", LARGE, False)
    told = json.loads(plane.run("diff", "v1", "v3", "-o", "json", "--digests"))
    digest = hashlib.sha256((three / "weights.bin").read_bytes()).hexdigest()
    assert told["files"]["changed"][0]["to"]["digest"] == f"sha256:{digest}"

    assert "Files: the same" in plane.run("diff", "v1", "v1")
    assert "not compared: never has no image yet" in plane.run("diff", "v1", "never")


def test_a_version_in_a_registry_that_takes_no_artifacts_is_ready_and_says_so(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Its image can be served as any other."""
    from tests.integration.images.conftest import Faults, ScriptedRegistry

    registry = ScriptedRegistry()
    try:
        body = b'{"errors":[{"code":"MANIFEST_INVALID","message":"no artifacts here"}]}'
        (tmp_path / "m").mkdir()
        (tmp_path / "m/model.txt").write_text("x")
        registry.on("PUT", r"/manifests/sha256:", Faults.done_but(201), times=3)  # an image for each platform
        registry.on("PUT", r"/manifests/sha256:", Faults.status(400, body))
        plane.apply(
            model_version("v1", tmp_path / "m", createdBy="ann", imageRepo=f"{registry.host}/hub/m", imageTag="v1")
        )
        made = plane.until_ready("mv", "v1")
        assert made["status"]["attempts"] == 1
        reasons = [event["reason"] for event in json.loads(plane.kubectl("get", "events", "-o", "json"))["items"]]
        assert "ProvenanceNotAttached" in reasons
    finally:
        registry.close()


@pytest.mark.parametrize("verb", ["lineage", "diff"])
def test_the_verbs_explain_themselves(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modelwright", verb, "--help"], capture_output=True, text=True, check=True
    )
    assert "Example: modelwright" in done.stdout
