"""The registry as other people's tools see it: skopeo pushes, pulls, copies and deletes; umoci reads the result."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from modelwright.oci.local import LocalRepository
from modelwright.oci.push import push_folder
from modelwright.oci.storage import ImageStorage


@pytest.fixture
def image(tmp_path: Path) -> str:
    """An OCI layout with one image of three layers, one of them over a few MiB."""
    layout = tmp_path / "layout"
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", f"{layout}:v1")
    for number, data in enumerate((b"small", os.urandom(5 << 20), b"third")):
        source = tmp_path / f"source{number}"
        source.mkdir()
        (source / f"file{number}").write_bytes(data)
        run("umoci", "insert", "--rootless", "--image", f"{layout}:v1", source, f"/kubedl-model/{number}")
    return f"oci:{layout}:v1"


def run(*command: object, ok: bool = True) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout if ok else done.stderr


def skopeo(verb: str, *arguments: object, ok: bool = True) -> str:
    return run("skopeo", "--insecure-policy", verb, *arguments, ok=ok)


def inspected(*arguments: object) -> Any:
    return json.loads(skopeo("inspect", *arguments))


def test_an_image_goes_in_and_comes_out_the_same(registry: Any, image: str, tmp_path: Path) -> None:
    there = f"docker://{registry.host}/team/model:v1"
    login = ("--dest-tls-verify=false", "--dest-creds", f"me:{registry.token}")
    skopeo("copy", *login, image, there)
    skopeo("copy", "--src-tls-verify=false", there, f"oci:{tmp_path}/back:v1")
    assert inspected(f"oci:{tmp_path}/back:v1", "--raw") == inspected(image, "--raw")
    run("umoci", "unpack", "--rootless", "--image", f"{tmp_path}/back:v1", tmp_path / "bundle")
    unpacked = tmp_path / "bundle/rootfs/kubedl-model/1/file1"
    assert unpacked.read_bytes() == (tmp_path / "source1/file1").read_bytes()


def test_pushing_without_a_login_or_with_a_wrong_one_is_refused(registry: Any, image: str) -> None:
    there = f"docker://{registry.host}/team/model:v1"
    said = skopeo("copy", "--dest-tls-verify=false", "--dest-no-creds", image, there, ok=False)
    assert "unauthorized" in said.lower() or "authentication required" in said.lower()
    skopeo("copy", "--dest-tls-verify=false", "--dest-creds", "me:wrong", image, there, ok=False)
    assert registry.storage.repositories() == []


def test_docker_manifests_are_taken_too(registry: Any, image: str) -> None:
    there = f"docker://{registry.host}/team/model:docker"
    login = ("--dest-tls-verify=false", "--dest-creds", f"me:{registry.token}")
    skopeo("copy", "--format", "v2s2", *login, image, there)
    found = inspected("--tls-verify=false", "--raw", there)
    assert found["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"


def test_inspect_list_copy_between_repositories_and_delete(registry: Any, image: str) -> None:
    base = f"docker://{registry.host}/team/model"
    login = ("--dest-tls-verify=false", "--dest-creds", f"me:{registry.token}")
    skopeo("copy", *login, image, f"{base}:v1")
    skopeo("copy", "--src-tls-verify=false", *login, f"{base}:v1", f"docker://{registry.host}/other/copy:v2")
    skopeo("copy", "--src-tls-verify=false", *login, f"{base}:v1", f"{base}:v2")
    found = inspected("--tls-verify=false", f"{base}:v1")
    assert found["RepoTags"] == ["v1", "v2"]
    assert found["Digest"] == inspected("--tls-verify=false", f"docker://{registry.host}/other/copy:v2")["Digest"]
    assert json.loads(skopeo("list-tags", "--tls-verify=false", base))["Tags"] == ["v1", "v2"]
    skopeo("delete", "--tls-verify=false", "--creds", f"me:{registry.token}", f"{base}:v1")
    assert registry.storage.repository("team/model").tags() == []
    assert registry.storage.repository("other/copy").tags() == ["v2"]


def test_an_image_built_on_the_disk_is_pulled_for_every_platform(registry: Any, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.onnx").write_bytes(b"weights")
    local = LocalRepository(ImageStorage(tmp_path / "registry"), "team/built", host=registry.host)
    pushed = push_folder(tmp_path / "model", local, ("v1",))
    there = f"docker://{registry.host}/team/built:v1"
    skopeo("copy", "--all", "--preserve-digests", "--src-tls-verify=false", there, f"oci:{tmp_path}/all:v1")
    index = json.loads((tmp_path / "all/index.json").read_text())
    assert index["manifests"][0]["digest"] == pushed.digest
    found = inspected("--tls-verify=false", there)
    assert "KUBEDL_MODEL_PATH=/kubedl-model" in found["Env"]
