"""The main job: a folder becomes an image, the image is served, versions are switched and rolled back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.e2e.load import DIGIT, Load, predict, served_version
from tests.e2e.plane import ControlPlane, inference_model, model_version, until


def test_a_folder_becomes_an_image_that_other_programs_read(plane: ControlPlane, digits: Path, tmp_path: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"))
    status = plane.until_ready("mv", "digits-v1")["status"]
    image = f"{plane.registry}/{status['image']}"

    skopeo = ["skopeo", "inspect", "--tls-verify=false", f"docker://{image}"]
    inspected = json.loads(subprocess.run(skopeo, check=True, capture_output=True, text=True).stdout)
    assert "KUBEDL_MODEL_PATH=/kubedl-model" in inspected["Env"]
    raw = subprocess.run([*skopeo[:2], "--raw", *skopeo[2:]], check=True, capture_output=True).stdout
    import hashlib

    assert f"sha256:{hashlib.sha256(raw).hexdigest()}" == status["imageDigest"]

    layout, bundle = tmp_path / "layout", tmp_path / "bundle"
    copy = ["skopeo", "copy", "--src-tls-verify=false", f"docker://{image}", f"oci:{layout}:m"]
    subprocess.run(copy, check=True, capture_output=True)
    unpack = ["umoci", "unpack", "--rootless", "--image", f"{layout}:m", str(bundle)]
    subprocess.run(unpack, check=True, capture_output=True)
    unpacked = bundle / "rootfs" / "kubedl-model" / "model.skops"
    assert unpacked.read_bytes() == (digits / "v1" / "model.skops").read_bytes()
    assert not (unpacked.parent / ".modelwright").exists()


def test_the_metrics_of_the_training_stand_in_the_status(plane: ControlPlane, digits: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"))
    assert plane.until_ready("mv", "digits-v1")["status"]["metrics"]["accuracy"] > 0.9


def test_versions_are_switched_and_rolled_back_without_a_failed_request(plane: ControlPlane, digits: Path) -> None:
    for layer in ("cloud", "edge"):
        name = f"digits-{layer}"
        node = {"nodeName": "here"} if layer == "edge" else {}
        plane.apply(model_version("digits-v1", digits / "v1"), model_version("digits-v2", digits / "v2"))
        plane.apply(inference_model(name, modelVersion="digits-v1", deployToLayer=layer, **node))
        url = plane.until_ready("infm", name)["status"]["url"]
        with Load(url) as load:
            load.more()
            plane.apply(inference_model(name, modelVersion="digits-v2", deployToLayer=layer, **node))
            assert plane.until_ready("infm", name)["status"]["servingVersion"] == "digits-v2"
            load.more()
            assert served_version(url) == "digits-v2"
            plane.run("rollback", f"infm/{name}")
            assert plane.until_ready("infm", name)["status"]["servingVersion"] == "digits-v1"
            load.more()
        assert load.failures == []
        assert [entry["source"]["modelVersion"] for entry in plane.get("infm", name)["status"]["history"]] == [
            "digits-v1",
            "digits-v2",
            "digits-v1",
        ]


def test_replicas_come_and_go_without_a_failed_request(plane: ControlPlane, digits: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"), inference_model("digits", modelVersion="digits-v1"))
    url = plane.until_ready("infm", "digits")["status"]["url"]
    with Load(url) as load:
        for replicas in (3, 1):
            plane.kubectl("scale", "infm/digits", f"--replicas={replicas}")
            status = plane.until_ready("infm", "digits")["status"]
            assert (status["replicas"], status["readyReplicas"]) == (replicas, replicas)
            load.more()
    assert load.failures == []
    plane.kubectl("scale", "infm/digits", "--replicas=0")
    status = plane.until_ready("infm", "digits")["status"]
    assert "url" not in status
    assert plane.condition("infm", "digits", "Available")["status"] == "False"
    plane.kubectl("scale", "infm/digits", "--replicas=1")
    assert plane.until_ready("infm", "digits")["status"]["url"] == url
    assert len(predict(url)) == 1


def test_a_model_waits_for_the_version_that_it_names(plane: ControlPlane, digits: Path) -> None:
    plane.apply(inference_model("digits", modelVersion="digits-v1"))
    plane.until_reason("infm", "digits", "ModelVersionNotFound", "Reconciling")
    plane.apply(model_version("digits-v1", digits / "v1"))
    plane.until_ready("infm", "digits")


def test_deleting_a_model_deletes_its_versions_and_leaves_images_and_files(plane: ControlPlane, digits: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"))
    image = plane.until_ready("mv", "digits-v1")["status"]["image"]
    plane.kubectl("delete", "model", "digits", "--wait")
    until(lambda: plane.kubectl("get", "mv", "-o", "name") == "", "the versions are gone")
    assert plane.kubectl("get", "mo", "-o", "name") == ""
    assert (digits / "v1" / "model.skops").exists()
    inspect = ["skopeo", "inspect", "--tls-verify=false", f"docker://{plane.registry}/{image}"]
    subprocess.run(inspect, check=True, capture_output=True)


def test_the_verbs_of_the_command_line_tell_the_story(plane: ControlPlane, digits: Path, tmp_path: Path) -> None:
    plane.apply(model_version("digits-v1", digits / "v1"), inference_model("digits", modelVersion="digits-v1"))
    plane.run("wait", "--for=condition=Ready", "infm/digits", "--timeout", "90s")
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([DIGIT]))
    asked = json.loads(plane.run("predict", "digits", "--data", f"@{rows}"))
    assert asked == json.loads(plane.run("predict", "infm/digits", "--data", "@-", stdin=json.dumps([DIGIT])))
    assert len(asked["predictions"]) == 1
    assert "ready http" in plane.run("logs", "digits")
    assert "ImageBuilt" in plane.run("describe", "mv", "digits-v1")
    assert "digits-v1" in plane.run("get", "modelwright")
    assert "has not served another version" in plane.run("rollback", "digits", code=1)
    assert "refused the request" in plane.run("predict", "digits", "--data", "[[1, 2]]", code=1)
    assert "not JSON" in plane.run("predict", "digits", "--data", "[1", code=2)
    found = json.loads(plane.run("doctor", "-o", "json"))
    assert {each["name"]: each["state"] for each in found}["control plane"] == "ok"


def test_the_front_page_says_where_things_are(plane: ControlPlane) -> None:
    import urllib.request

    with urllib.request.urlopen(plane.url, timeout=30) as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert str(plane.data / "kubeconfig") in answer.read().decode()
    with urllib.request.urlopen(f"{plane.url}/metrics", timeout=30) as answer:
        assert "workqueue_depth" in answer.read().decode()
