"""SavedModels on the whole control plane, from a manifest and from a ModelVersion."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.plane import ControlPlane, inference_model, model_version

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of the test's own; whatever it started is gone at the end."""
    control_plane = ControlPlane(tmp_path / "data")
    control_plane.start()
    try:
        yield control_plane
    finally:
        assert control_plane.stop() == 0
        assert control_plane.processes() == []


def apply(plane: ControlPlane, *objects: dict[str, Any]) -> None:
    plane.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(each) for each in objects))


def answer(url: str) -> tuple[Any, str]:
    body = json.dumps({"instances": [[1, 0]]}).encode()
    request = urllib.request.Request(f"{url}:predict", body, {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=60) as found:
        return json.load(found)["predictions"], found.headers["X-Model-Version"]


def entry(models: Path, number: int, archive: Path) -> dict[str, str]:
    """A SavedModel as an archive with one top folder, in a manifest."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(models / str(number), "times")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return {"version": f"v{number}", "downloadURL": archive.as_uri(), "sha256sum": digest}


def test_a_saved_model_of_a_manifest_is_served_and_switched(plane: ControlPlane, models: Path, tmp_path: Path) -> None:
    manifest = [entry(models, number, tmp_path / f"{number}.tar.gz") for number in (2, 3)]
    spec = {"frameworkType": "tensorflow", "deployToLayer": "edge", "nodeName": "here", "manifest": manifest}
    apply(plane, inference_model("times", **spec, targetVersion="v2"))
    url = plane.until_ready("infm", "times")["status"]["url"]
    assert answer(url) == ([[2.0, 0.0]], "v2")
    apply(plane, inference_model("times", **spec, targetVersion="v3"))
    plane.until_ready("infm", "times")
    assert answer(url) == ([[3.0, 0.0]], "v3")
    told = json.loads(plane.run("predict", "times", "--data", '{"inputs": [[2, 1]]}'))
    assert told == {"outputs": [[6.0, 3.0]]}


def test_a_saved_model_becomes_an_image_and_is_served_from_it(
    plane: ControlPlane, models: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(models / "4", tmp_path / "model")
    served = inference_model("times", frameworkType="tensorflow", modelVersion="times-v4")
    apply(plane, model_version("times-v4", folder), served)
    url = plane.until_ready("infm", "times")["status"]["url"]
    assert answer(url) == ([[4.0, 0.0]], "times-v4")
