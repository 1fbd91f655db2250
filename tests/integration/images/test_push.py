"""Pushing to the distribution project's registry, read back by other programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modelwright.oci import base, image, media
from modelwright.oci.image import Blob, manifest_of
from modelwright.oci.push import Unwatched, push, push_folder
from modelwright.oci.session import Options
from modelwright.ports.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    ModelwrightError,
    NotFound,
    Rejected,
    Unavailable,
)


def test_skopeo_and_umoci_read_what_was_pushed(
    docker_registry: Any, connect: Any, model: Path, tmp_path: Path, run_tool: Any, same_files: Any
) -> None:
    pushed = push_folder(model, connect(docker_registry.host, "read/back"), ("v1",))
    source = f"docker://{docker_registry.host}/read/back:v1"
    inspected = json.loads(run_tool("skopeo", "inspect", "--tls-verify=false", source))
    assert inspected["Digest"] == pushed.digest
    assert inspected["Env"] == ["KUBEDL_MODEL_PATH=/kubedl-model"]
    run_tool("skopeo", "copy", "--src-tls-verify=false", source, f"oci:{tmp_path / 'layout'}:v1")
    run_tool("umoci", "unpack", "--rootless", "--image", f"{tmp_path / 'layout'}:v1", tmp_path / "bundle")
    assert same_files(tmp_path / "bundle" / "rootfs" / "kubedl-model", model)


@pytest.mark.parametrize("architecture", ["amd64", "arm64", "arm"])
def test_every_platform_of_the_index_can_be_copied(
    docker_registry: Any, connect: Any, model: Path, tmp_path: Path, run_tool: Any, architecture: str
) -> None:
    push_folder(model, connect(docker_registry.host, f"platform/{architecture}"), ("v1",))
    source = f"docker://{docker_registry.host}/platform/{architecture}:v1"
    command = ["skopeo", f"--override-arch={architecture}", "--override-os=linux", "copy", "--src-tls-verify=false"]
    run_tool(*command, source, f"dir:{tmp_path / 'copy'}")
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    config = json.loads((tmp_path / "copy" / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
    assert config["architecture"] == architecture
    assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]


def test_a_second_push_uploads_no_layer(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "push/twice")
    first, second = push_folder(model, images, ("v1",)), push_folder(model, images, ("v1",))
    assert (first.uploaded_layers, second.uploaded_layers) == (2, 0)
    assert (first.digest, second.uploaded_bytes) == (second.digest, 0)


def test_one_changed_file_uploads_one_layer(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "push/changed")
    push_folder(model, images, ("v1",))
    (model / "weights.bin").write_bytes(os.urandom(9_000_000))
    assert push_folder(model, images, ("v2",)).uploaded_layers == 1
    (model / "config.json").write_text("{1}")
    assert push_folder(model, images, ("v3",)).uploaded_layers == 1


def test_layers_are_mounted_from_another_repository(docker_registry: Any, connect: Any, model: Path) -> None:
    push_folder(model, connect(docker_registry.host, "mount/source"), ("v1",))
    images = connect(docker_registry.host, "mount/target")
    sources = ("elsewhere.example.com/mount/source", f"{docker_registry.host}/mount/source")
    assert push_folder(model, images, ("v1",), sources=sources).uploaded_layers == 0


def test_a_source_that_lacks_the_layers_is_no_obstacle(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "mount/nothing")
    assert push_folder(model, images, ("v1",), sources=("mount/absent", "mount/absent2")).uploaded_layers == 2


def test_an_image_that_is_built_already_is_pushed_as_it_is(docker_registry: Any, connect: Any, model: Path) -> None:
    built = image.build(model)
    images = connect(docker_registry.host, "push/built")
    assert push(built, images).digest == built.digest
    assert images.tags() == []
    assert images.resolve(built.digest) is not None


def test_a_tag_with_other_content_is_never_overwritten(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "tags/taken")
    first = push_folder(model, images, ("v1",))
    (model / "config.json").write_text("changed")
    with pytest.raises(AlreadyExists) as caught:
        push_folder(model, images, ("v1",))
    assert caught.value.reason == "ImageTagTaken"
    found = images.resolve("v1")
    assert found is not None
    assert found.digest == first.digest


def test_the_first_free_tag_is_used(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "tags/candidates")
    push_folder(model, images, ("v1",))
    (model / "config.json").write_text("changed")
    second = push_folder(model, images, ("v1", "v1a", "v1ab"))
    again = push_folder(model, images, ("v1", "v1a", "v1ab"))
    assert (second.tag, again.tag, again.digest) == ("v1a", "v1a", second.digest)
    assert images.tags() == ["v1", "v1a"]


def test_a_base_image_comes_below_the_model(
    docker_registry: Any, connect: Any, model: Path, tmp_path: Path, same_files: Any
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "shell").write_text("#!")
    below = connect(docker_registry.host, "base/shell")
    push_folder(tmp_path / "base", below, ("v1",))
    images = connect(docker_registry.host, "base/model")
    pushed = push_folder(model, images, ("v1",), base=base.load(below, "v1"))
    from modelwright.oci.pull import pull

    pull(images, pushed.digest, tmp_path / "out")
    assert (tmp_path / "out" / "shell").read_text() == "#!"
    (tmp_path / "out" / "shell").unlink()
    assert same_files(tmp_path / "out", model)


def test_a_base_image_is_copied_from_another_registry(
    docker_registry: Any, scripted: Any, connect: Any, model: Path, tmp_path: Path
) -> None:
    below = connect(docker_registry.host, "base/elsewhere")
    push_folder(model, below, ("v1",))
    images = connect(scripted.host, "base/copied")
    pushed = push_folder(model / "config.json", images, ("v1",), base=base.load(below, "v1"))
    index = json.loads(images.read_manifest(pushed.digest).data)
    assert len(index["manifests"]) == 3
    layers = json.loads(images.read_manifest(index["manifests"][0]["digest"]).data)["layers"]
    assert len(layers) == 3
    assert all(("base/copied", layer["digest"]) in scripted.blobs for layer in layers)


def test_a_base_image_for_other_platforms_only_is_refused(scripted: Any, connect: Any) -> None:
    images = connect(scripted.host, "base/windows")
    config = b'{"architecture":"amd64","os":"windows","rootfs":{"type":"layers","diff_ids":[]}}'
    digest = scripted.add("base/windows", config)
    manifest = {
        "schemaVersion": 2,
        "config": {"mediaType": media.CONFIG, "digest": digest, "size": len(config)},
        "layers": [],
    }
    scripted.add_manifest("base/windows", json.dumps(manifest).encode(), media.MANIFEST, "v1")
    with pytest.raises(Invalid, match="linux/amd64"):
        base.load(images, "v1")


def test_tls_by_a_private_ca_and_a_password(
    locked_registry: Any, connect: Any, log_in: Any, model: Path, tmp_path: Path
) -> None:
    log_in(locked_registry.host)
    images = connect(locked_registry.host, "locked/model", Options(ca_file=locked_registry.ca_file))
    pushed = push_folder(model, images, ("v1",))
    from modelwright.oci.pull import pull

    assert pull(images, "v1", tmp_path / "out").digest == pushed.digest


def test_an_unknown_ca_is_refused_and_the_message_says_what_to_do(
    locked_registry: Any, connect: Any, model: Path
) -> None:
    images = connect(locked_registry.host, "locked/model")
    with pytest.raises(Forbidden) as caught:
        push_folder(model, images, ("v1",))
    assert caught.value.reason == "RegistryCertificateInvalid"
    assert "--ca-file" in caught.value.message


def test_a_missing_login_is_refused_and_the_message_says_what_to_do(
    locked_registry: Any, connect: Any, model: Path
) -> None:
    images = connect(locked_registry.host, "locked/model", Options(ca_file=locked_registry.ca_file))
    with pytest.raises(Forbidden) as caught:
        push_folder(model, images, ("v1",))
    assert caught.value.reason == "RegistryUnauthorized"
    assert "docker login" in caught.value.message


def test_a_registry_that_is_down_is_said_to_be(connect: Any, model: Path, pauses: list[float]) -> None:
    with pytest.raises(Unavailable) as caught:
        push_folder(model, connect("127.0.0.1:1", "some/model"), ("v1",))
    assert caught.value.reason == "RegistryUnreachable"
    assert len(pauses) == 4


def test_a_file_that_changes_during_the_upload_is_noticed(scripted: Any, connect: Any, model: Path) -> None:
    def rewrite(_handler: object) -> bool:
        (model / "weights.bin").write_bytes(os.urandom(9_000_000))
        return False

    scripted.on("POST", "/blobs/uploads/", rewrite, times=99)
    with pytest.raises(Conflict) as caught:
        push_folder(model, connect(scripted.host, "changing/model"), ("v1",))
    assert caught.value.reason == "StorageChanged"
    assert caught.value.retryable
    assert not scripted.tags


def test_content_that_is_not_its_digest_is_a_change_not_a_fault_of_the_registry(scripted: Any, connect: Any) -> None:
    images = connect(scripted.host, "changing/blob")
    with pytest.raises(Conflict) as caught:
        images.write_blob(Blob(b"other bytes", image.Blob(b"", manifest_of("x", {}).digest).digest))
    assert caught.value.reason == "StorageChanged"


@pytest.mark.parametrize(
    ("make", "error", "reason"),
    [
        (lambda path: path.mkdir(), Invalid, "StorageEmpty"),
        (lambda path: None, NotFound, "StoragePathNotFound"),
        (lambda path: (path.mkdir(), (path / "link").symlink_to("/etc/passwd")), Rejected, "StorageNotPlain"),
    ],
    ids=["empty", "missing", "link"],
)
def test_a_folder_that_cannot_be_packed_is_refused_before_anything_is_sent(
    scripted: Any,
    connect: Any,
    tmp_path: Path,
    make: Callable[[Path], object],
    error: type[ModelwrightError],
    reason: str,
) -> None:
    make(tmp_path / "folder")
    with pytest.raises(error) as caught:
        push_folder(tmp_path / "folder", connect(scripted.host, "bad/input"), ("v1",))
    assert caught.value.reason == reason
    assert str(tmp_path / "folder") in caught.value.message
    assert not [one for one in scripted.seen if one.method != "GET"]


def test_two_pushes_at_once_of_different_content_to_one_tag_leave_one_of_them(
    scripted: Any, connect: Any, tmp_path: Path
) -> None:
    outcomes: list[str] = []

    def run(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "file").write_text(str(number))
        try:
            outcomes.append(push_folder(folder, connect(scripted.host, "race/model"), ("v1",)).digest)
        except AlreadyExists as error:
            outcomes.append(error.reason)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("ImageTagTaken") == 3
    assert scripted.tags["race/model", "v1"] in outcomes


def test_a_watcher_sees_every_byte_hashed_and_moved(docker_registry: Any, connect: Any, model: Path) -> None:
    class Counting(Unwatched):
        def __init__(self) -> None:
            self.size = self.read = self.sent = 0
            self.lock = threading.Lock()

        def planned(self, size: int, count: int) -> None:
            self.size = size

        def hashed(self, count: int) -> None:
            with self.lock:
                self.read += count

        def moved(self, count: int) -> None:
            with self.lock:
                self.sent += count

    for _ in range(2):
        counting = Counting()
        pushed = push_folder(model, connect(docker_registry.host, "push/watched"), ("v1",), watcher=counting)
        assert counting.size == counting.read == counting.sent == pushed.size


def test_the_command_prints_the_digest_last_and_nothing_else_on_stdout(docker_registry: Any, model: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "modelwright",
        "image",
        "build",
        str(model),
        f"{docker_registry.host}/cli/model:v1",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{image.build(model).digest}\n"
    assert "2 of 2 layers uploaded" in done.stderr


def test_the_command_fails_with_one_clear_line(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "modelwright",
        "image",
        "build",
        str(tmp_path / "none"),
        "127.0.0.1:1/cli/model:v1",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_refuses_wrong_usage() -> None:
    command = [sys.executable, "-m", "modelwright", "image", "prune", "localhost:1/a"]
    assert subprocess.run(command, capture_output=True).returncode == 2
