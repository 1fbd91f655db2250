"""What goes wrong at the edge is said, harms nothing else, and goes on by itself where that is possible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cluster import namespaces
from tests.cluster.edge.edge_team import EDGE_FOLDER, PORTS, EdgeTeam
from tests.cluster.operator import Operator
from tests.cluster.rig import node_faults
from tests.cluster.rig.state import NodeState
from tests.cluster.serving import models
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.models import File
from tests.cluster.serving.team import INFERENCE_MODEL

JSON = dict[str, Any]


def one(url: str, sha256: str, version: str = "v1") -> JSON:
    """A manifest with one version, which is wanted."""
    entry = {"version": version, "downloadURL": url, "sha256sum": sha256}
    return {"manifest": [entry], "targetVersion": version}


def big_file(folder: Path, name: str, value: float, mebibytes: int) -> File:
    return models.tar(models.onnx_model(folder / name, value, mebibytes=mebibytes), folder / f"{name}.tar")


# Downloads ----------------------------------------------------------------------------------------------------------


def test_a_wrong_sha256_is_refused_with_the_right_one_and_nothing_is_kept(edge: EdgeTeam, shelf: Shelf) -> None:
    edge.serve_here("wrong", **one(shelf.urls["v1"], "0" * 64))
    assert shelf.files["v1"].sha256 in edge.said("wrong", "ChecksumMismatch")
    assert edge.conditions("wrong")["Available"]["status"] == "False"
    assert edge.kept_files("wrong") == []
    edge.change("wrong", **one(shelf.urls["v1"], shelf.files["v1"].sha256))
    edge.ready("wrong")
    assert edge.value("wrong") == 1
    edge.remove("wrong")


def test_a_server_that_stalls_is_left_and_what_it_has_sent_is_not_asked_for_again(
    edge: EdgeTeam, shelf: Shelf, tmp_path: Path
) -> None:
    file = big_file(tmp_path, "stalling", 2, 4)
    url = shelf.downloads.give(file, "stalling.tar", stops_after=file.size // 2)
    edge.serve_here("stalling", **one(url, file.sha256))
    edge.said("stalling", "DownloadStalled")
    shelf.downloads.behave("stalling.tar")
    edge.ready("stalling")
    assert edge.value("stalling") == 2
    assert shelf.downloads.sent("stalling.tar") < 1.5 * file.size
    edge.remove("stalling")


def test_a_server_that_lies_about_its_length_is_not_believed(edge: EdgeTeam, shelf: Shelf) -> None:
    url = shelf.downloads.give(shelf.files["v2"], "lying.tar", claims=1000)
    edge.serve_here("lying", **one(url, shelf.files["v2"].sha256))
    edge.wait(lambda: shelf.downloads.count("lying.tar") >= 2, "the download to be tried again", "lying")
    assert not edge.is_ready("lying")
    shelf.downloads.behave("lying.tar")
    edge.ready("lying")
    assert edge.value("lying") == 2
    edge.remove("lying")


def test_deleted_during_its_download_it_leaves_nothing(edge: EdgeTeam, shelf: Shelf, tmp_path: Path) -> None:
    file = big_file(tmp_path, "unfinished", 3, 4)
    url = shelf.downloads.give(file, "unfinished.tar", stops_after=file.size // 2)
    edge.serve_here("unfinished", **one(url, file.sha256))
    kept = edge.kept("unfinished")
    edge.wait(lambda: any(path.is_file() for path in kept.rglob("*")), "the download to begin", "unfinished")
    edge.remove("unfinished")
    shelf.downloads.behave("unfinished.tar")


# The node -----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_with_room_it_goes_on(edge: EdgeTeam, shelf: Shelf, tmp_path: Path) -> None:
    file = big_file(tmp_path, "roomy", 4, 8)
    url = shelf.downloads.give(file, "roomy.tar")
    with namespaces.fresh(edge.cluster, "privileged") as namespace:
        team = EdgeTeam(edge.cluster, namespace, edge.node)
        folder = f"/{EDGE_FOLDER}/models/{namespace}"
        with node_faults.small_disk(edge.cluster, edge.node.name, folder, 64) as disk:
            filling = node_faults.fill(disk, leave_bytes=2 << 20)
            team.serve_here("roomy", **one(url, file.sha256))
            team.said("roomy", "DiskFull")
            filling.unlink()
            team.ready("roomy")
            assert team.value("roomy") == 4
            team.kubectl("delete", INFERENCE_MODEL, "roomy", "--timeout=120s")


def test_a_model_that_does_not_load_is_said_and_nobody_is_sent_to_it(edge: EdgeTeam, shelf: Shelf) -> None:
    edge.serve_here("bad", manifest=shelf.manifest("bad", "v1"), targetVersion="bad")
    edge.said("bad", "ModelInvalid")
    assert edge.conditions("bad")["Available"]["status"] == "False"
    edge.change("bad", targetVersion="v1")
    edge.ready("bad")
    assert edge.value("bad") == 1
    edge.remove("bad")


def test_a_model_too_big_for_its_memory_is_said_and_one_that_fits_is_served(
    edge: EdgeTeam, shelf: Shelf, tmp_path: Path
) -> None:
    big = models.file(models.onnx_model(tmp_path, 7, mebibytes=128) / "model.onnx")
    too_big = one(shelf.downloads.give(big, "too-big.onnx"), big.sha256, "big")
    edge.serve_here("memory", **too_big, resources={"limits": {"memory": "160Mi"}})
    assert "resources.limits.memory" in edge.said("memory", "OOMKilled")
    assert edge.conditions("memory")["Available"]["status"] == "False"
    pod = edge.pod("memory")["metadata"]["uid"]
    edge.change("memory", **one(shelf.urls["v1"], shelf.files["v1"].sha256))
    edge.ready("memory")
    assert edge.value("memory") == 1
    assert edge.pod("memory")["metadata"]["uid"] == pod


def test_a_port_that_a_foreign_process_has_is_said_and_taken_once_it_is_free(edge: EdgeTeam, shelf: Shelf) -> None:
    port = next(PORTS)
    with node_faults.occupied_port(edge.cluster, edge.node.name, port):
        edge.serve_here("shut-out", servingPort=port, manifest=shelf.manifest("v1"), targetVersion="v1")
        assert str(port) in edge.said("shut-out", "PortInUse")
        assert edge.conditions("shut-out")["Available"]["status"] == "False"
    edge.ready("shut-out")
    assert edge.value("shut-out") == 1
    edge.remove("shut-out")


def test_of_two_models_that_claim_one_port_the_second_waits_for_it(edge: EdgeTeam, shelf: Shelf) -> None:
    port = next(PORTS)
    edge.serve_here("first", servingPort=port, manifest=shelf.manifest("v1"), targetVersion="v1")
    edge.ready("first")
    edge.serve_here("second", servingPort=port, manifest=shelf.manifest("v2"), targetVersion="v2")
    assert str(port) in edge.said("second", "PortTaken")
    assert edge.value("first") == 1
    edge.remove("first")
    edge.ready("second")
    assert edge.value("second") == 2
    edge.remove("second")


# Which node ---------------------------------------------------------------------------------------------------------


def test_a_selector_that_no_node_has_waits_for_one(edge: EdgeTeam, shelf: Shelf) -> None:
    label = f"{edge.namespace}/only"
    edge.serve_here(
        "choosy",
        nodeName=None,
        nodeSelector={label: "yes"},
        manifest=shelf.manifest("v1"),
        targetVersion="v1",
    )
    assert f"{label}=yes" in edge.said("choosy", "NodeNotFound")
    edge.cluster.run("label", "node", edge.node.name, f"{label}=yes")
    try:
        edge.ready("choosy")
        assert edge.status("choosy")["nodeName"] == edge.node.name
        edge.remove("choosy")
    finally:
        edge.cluster.run("label", "node", edge.node.name, f"{label}-")


def test_a_selector_that_several_nodes_have_chooses_one_and_says_so(edge: EdgeTeam, shelf: Shelf) -> None:
    label, names = f"{edge.namespace}/some", [edge.node.name, "edge-0"]
    edge.cluster.run("label", "node", *names, f"{label}=yes")
    try:
        edge.serve_here(
            "spoilt",
            nodeName=None,
            nodeSelector={label: "yes"},
            manifest=shelf.manifest("v1"),
            targetVersion="v1",
        )
        edge.ready("spoilt")
        chosen = edge.status("spoilt")["nodeName"]
        assert chosen in names
        assert chosen in edge.event("spoilt", "NodeChosen")
        assert len(edge.pods("spoilt")) == 1
        assert edge.value("spoilt") == 1
        edge.kubectl("delete", INFERENCE_MODEL, "spoilt")
    finally:
        edge.cluster.run("label", "node", *names, f"{label}-")


# The namespace ------------------------------------------------------------------------------------------------------


def test_a_namespace_that_forbids_edge_pods_is_said_with_the_command_that_allows_them(
    operator: Operator, bare_node: NodeState, shelf: Shelf
) -> None:
    with namespaces.fresh(operator.cluster, "restricted") as namespace:
        team = EdgeTeam(operator.cluster, namespace, bare_node)
        team.serve_here("forbidden", manifest=shelf.manifest("v1"), targetVersion="v1")
        message = team.said("forbidden", "PodSecurityForbids")
        command = f"kubectl label --overwrite ns {namespace} pod-security.kubernetes.io/enforce=privileged"
        assert command in message
        team.cluster.run(*command.split()[1:])
        team.ready("forbidden")
        assert team.value("forbidden") == 1
        team.leave()
