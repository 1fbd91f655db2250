"""A model is served on a node without a network for Pods, and changes there without a failed request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.builds import local, version
from tests.cluster.edge.edge_team import EdgeTeam
from tests.cluster.serving import images, models
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.team import INFERENCE_MODEL, ask

NAME = "adder"
PROGRESS = re.compile(r"[1-9][\d,]* of 8,\d{3},\d{3} bytes")


@pytest.fixture(scope="module")
def served(edge: EdgeTeam, shelf: Shelf) -> EdgeTeam:
    """The edge model `adder`, which serves v1."""
    edge.serve_here(NAME, manifest=shelf.manifest("v1", "v2", "v3", "bad"), targetVersion="v1")
    edge.ready(NAME)
    return edge


@pytest.fixture(scope="module")
def versioned(edge: EdgeTeam) -> EdgeTeam:
    """The edge model `versioned`, of a ModelVersion that is built meanwhile."""
    models.onnx_model(folder_of(edge), 4)
    edge.create(version("adder-v4", local(edge.cluster.nodes[0].name, f"/srv/{edge.namespace}")))
    edge.serve_here("versioned", modelVersion="adder-v4")
    return edge


def folder_of(team: EdgeTeam) -> Path:
    """Where that version is built from, on a node of the cloud."""
    return Path(team.cluster.nodes[0].root, "srv", team.namespace)


def is_another(team: EdgeTeam, uid: str) -> bool:
    """Whether a Pod other than this serves `versioned`."""
    pods = [pod["metadata"]["uid"] for pod in team.pods("versioned")]
    return pods not in ([], [uid]) and team.status("versioned").get("readyReplicas") == 1


def serves(team: EdgeTeam, target: str) -> None:
    """Have it serve this version of its manifest."""
    team.change(NAME, targetVersion=target)
    team.ready(NAME)
    assert team.status(NAME)["servingVersion"] == target


def test_it_answers_at_the_nodes_address_and_its_port(served: EdgeTeam) -> None:
    status = served.status(NAME)
    port = served.model(NAME)["spec"]["servingPort"]
    assert status["url"] == f"http://{served.node.address}:{port}/v1/models/{NAME}"
    assert status["nodeName"] == served.node.name
    assert (status["servingVersion"], status["replicas"], status["readyReplicas"]) == ("v1", 1, 1)
    assert served.value(NAME) == 1
    assert ask(f"http://{served.node.address}:{port}/v2/health/ready", body=None).status == 200


def test_its_pod_needs_nothing_that_an_edge_node_lacks(served: EdgeTeam) -> None:
    spec = served.pod(NAME)["spec"]
    port = served.model(NAME)["spec"]["servingPort"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "Default")
    assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
    assert {"operator": "Exists"} in spec["tolerations"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (field,) = terms[0]["matchFields"]
    assert (field["key"], field["values"]) == ("metadata.name", [served.node.name])
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    assert {container["imagePullPolicy"] for container in containers} == {"IfNotPresent"}
    ports = [each for container in containers for each in container.get("ports", ())]
    assert [(each["containerPort"], each["hostPort"]) for each in ports] == [(port, port)]


def test_a_switch_fails_no_request_and_the_old_version_goes_after_the_new_one_serves(served: EdgeTeam) -> None:
    serves(served, "v1")
    pod = served.pod(NAME)["metadata"]["uid"]
    with served.traffic(NAME) as traffic:
        traffic.more()
        serves(served, "v2")
        traffic.answers(2)
        serves(served, "v3")
        traffic.answers(3)
        traffic.more()
    assert traffic.report.failures == []
    assert set(traffic.report.values) == {1, 2, 3}
    assert traffic.report.answers[-1].value == 3
    assert served.pod(NAME)["metadata"]["uid"] == pod
    assert sum(served.restarts(NAME).values()) == 0
    served.wait(lambda: len(served.kept_files(NAME)) == 1, "the old versions to be removed from the node", NAME)


def test_while_a_version_cannot_be_loaded_the_old_one_serves(served: EdgeTeam) -> None:
    serves(served, "v1")
    with served.traffic(NAME) as traffic:
        served.change(NAME, targetVersion="bad")
        message = served.said(NAME, "ModelInvalid")
        assert served.conditions(NAME)["Available"]["status"] == "True"
        assert served.status(NAME)["servingVersion"] == "v1"
        traffic.more()
        serves(served, "v2")
        traffic.answers(2)
    assert "bad" in message
    assert traffic.report.failures == []
    assert set(traffic.report.values) == {1, 2}


def test_zero_replicas_serve_nothing_and_one_serves_again_without_a_download(served: EdgeTeam, shelf: Shelf) -> None:
    serves(served, "v1")
    downloaded = shelf.downloads.count("v1.tar")
    served.kubectl("scale", INFERENCE_MODEL, NAME, "--replicas=0")
    served.wait(lambda: served.pods(NAME) == [] and served.is_ready(NAME), "no Pod to be left", NAME)
    assert served.conditions(NAME)["Available"]["status"] == "False"
    served.kubectl("scale", INFERENCE_MODEL, NAME, "--replicas=1")
    served.ready(NAME)
    assert served.value(NAME) == 1
    assert shelf.downloads.count("v1.tar") == downloaded


def test_more_than_one_replica_is_one_and_said(served: EdgeTeam) -> None:
    served.kubectl("scale", INFERENCE_MODEL, NAME, "--replicas=3")
    assert "1 runs" in served.said(NAME, "OneReplicaAtTheEdge")
    served.ready(NAME)
    assert len(served.pods(NAME)) == 1
    served.kubectl("scale", INFERENCE_MODEL, NAME, "--replicas=1")


def test_a_model_version_is_pulled_by_digest_and_verified(versioned: EdgeTeam) -> None:
    versioned.ready("versioned")
    assert versioned.value("versioned") == 4
    assert versioned.status("versioned")["servingVersion"] == "adder-v4"
    (kept,) = versioned.kept_files("versioned")
    assert kept.read_bytes() == (folder_of(versioned) / "model.onnx").read_bytes()


def test_a_model_version_that_is_deleted_goes_on_being_served_and_this_is_said(versioned: EdgeTeam) -> None:
    versioned.ready("versioned")
    pod = versioned.pod("versioned")["metadata"]
    versioned.kubectl("delete", "modelversion", "adder-v4")
    assert "served" in versioned.said("versioned", "ModelVersionNotFound")
    assert versioned.conditions("versioned")["Available"]["status"] == "True"
    assert versioned.value("versioned") == 4
    versioned.kubectl("delete", "pod", pod["name"], "--wait=false")  # another of its name comes at once
    versioned.wait(lambda: is_another(versioned, pod["uid"]), "another Pod of it", "versioned")
    assert versioned.value("versioned") == 4


def test_an_image_is_run_as_it_is(edge: EdgeTeam) -> None:
    edge.serve_here("as-it-is", image=images.web(edge.cluster.registry), servingPort=images.PORT)
    edge.ready("as-it-is")
    assert edge.url("as-it-is") == f"http://{edge.node.address}:{images.PORT}"
    assert edge.ask("as-it-is", "/", body=None).body.strip() == images.WORDS
    assert [each["name"] for each in edge.pod("as-it-is")["spec"]["containers"]] == ["server"]


def test_progress_of_a_download_is_seen(edge: EdgeTeam, shelf: Shelf, tmp_path: Path) -> None:
    big = models.tar(models.onnx_model(tmp_path / "big", 5, mebibytes=8), tmp_path / "big.tar")
    url = shelf.downloads.give(big, "progress.tar", rate=400_000)
    manifest: list[dict[str, Any]] = [{"version": "v1", "downloadURL": url, "sha256sum": big.sha256}]
    edge.serve_here("big", manifest=manifest, targetVersion="v1")
    edge.wait(lambda: PROGRESS.search(edge.said("big", "Fetching")), "progress to be told of", "big")
    shelf.downloads.behave("progress.tar")
    edge.ready("big")
    assert edge.value("big") == 5


def test_nothing_is_left_of_a_model_that_is_deleted(served: EdgeTeam) -> None:
    assert served.kept(NAME).is_dir()
    served.remove(NAME)
