"""Pulling: verified, resumed, all or nothing."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from modelwright.oci import digests, media
from modelwright.oci.local import LocalRepository
from modelwright.oci.prune import carry_out, plan
from modelwright.oci.pull import pull
from modelwright.oci.push import push_folder
from modelwright.oci.retry import Retry
from modelwright.oci.storage import ImageStorage
from modelwright.oci.verify import verify
from modelwright.ports.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    Mismatch,
    ModelwrightError,
    NotFound,
    Rejected,
    Unavailable,
)

QUICK = Retry(first_pause=0.0)


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def put_image(registry: Any, layers: list[tuple[str, bytes]], diff_ids: list[str], **config: Any) -> str:
    """An image as other builders make it."""
    body = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}, **config}
    data = json.dumps(body).encode()
    listed = [{"mediaType": kind, "digest": registry.add("a/b", blob), "size": len(blob)} for kind, blob in layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": media.DOCKER_MANIFEST,
        "config": {"mediaType": media.DOCKER_CONFIG, "digest": registry.add("a/b", data), "size": len(data)},
        "layers": listed,
    }
    digest: str = registry.add_manifest("a/b", json.dumps(manifest).encode(), media.DOCKER_MANIFEST, "v1")
    return digest


def test_what_was_pushed_is_pulled(
    docker_registry: Any, connect: Any, model: Path, tmp_path: Path, same_files: Any
) -> None:
    images = connect(docker_registry.host, "pull/model")
    pushed = push_folder(model, images, ("v1",))
    seen: list[tuple[int, int]] = []
    pulled = pull(images, "v1", tmp_path / "deep" / "out", report=lambda done, total: seen.append((done, total)))
    assert same_files(tmp_path / "deep" / "out", model)
    assert pulled.digest == pushed.digest
    assert seen[-1] == (pushed.size, pushed.size)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_what_was_pushed_to_this_machine_is_pulled(model: Path, tmp_path: Path, same_files: Any) -> None:
    images = LocalRepository(ImageStorage(tmp_path / "registry"), "a/b")
    push_folder(model, images, ("v1",))
    pull(images, "v1", tmp_path / "out")
    assert same_files(tmp_path / "out", model)


def test_a_file_alone_is_packed_and_pulled(scripted: Any, connect: Any, model: Path, tmp_path: Path) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model / "config.json", images, ("v1",))
    pull(images, "v1", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["config.json"]


def test_a_broken_download_goes_on_where_it_stopped(
    scripted: Any, connect: Any, faults: Any, model: Path, tmp_path: Path, same_files: Any
) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))
    for _ in range(8):
        scripted.on("GET", "blobs/", faults.cut_body(1_500_000))
    pull(images, "v1", tmp_path / "out", retry=QUICK)
    assert same_files(tmp_path / "out", model)
    assert "bytes=1500000-" in [one.headers.get("range") for one in scripted.seen]


def test_a_later_pull_goes_on_where_an_earlier_one_gave_up(
    scripted: Any, connect: Any, faults: Any, model: Path, tmp_path: Path, same_files: Any
) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))
    large = max(scripted.blobs, key=lambda key: len(scripted.blobs[key]))[1]
    scripted.on("GET", large, faults.cut_body(4_000_000))
    scripted.on("GET", large, faults.status(503), times=20)
    with pytest.raises(Unavailable):
        pull(images, "v1", tmp_path / "out", retry=Retry(2, 0.0))
    assert not (tmp_path / "out").exists()
    scripted.seen.clear()
    pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out", retry=Retry(30, 0.0))
    assert "bytes=4000000-" in [one.headers.get("range") for one in scripted.seen]
    assert same_files(tmp_path / "out", model)


def test_a_damaged_part_of_an_earlier_pull_is_fetched_again(
    scripted: Any, connect: Any, model: Path, tmp_path: Path, same_files: Any
) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))
    kept = tmp_path / "kept"
    kept.mkdir()
    for _, digest in list(scripted.blobs):
        (kept / f"{digest.removeprefix('sha256:')}.partial").write_bytes(b"damaged")
    pull(images, "v1", tmp_path / "out", partial=kept)
    assert same_files(tmp_path / "out", model)


@pytest.mark.parametrize("damage", ["flip", "cut", "more"])
def test_content_that_is_not_what_the_manifest_says_is_never_unpacked(
    scripted: Any, connect: Any, model: Path, tmp_path: Path, damage: str
) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))
    key = max(scripted.blobs, key=lambda key: len(scripted.blobs[key]))
    data = scripted.blobs[key]
    changed = {"flip": data[:600] + b"\x00" + data[601:], "cut": data[:-1], "more": data + b"x"}[damage]
    scripted.blobs[key] = changed if changed != data else data[:600] + b"\x01" + data[601:]
    with pytest.raises((Mismatch, Unavailable)):
        pull(images, "v1", tmp_path / "out", retry=QUICK)
    assert not (tmp_path / "out").exists()


def test_a_gzip_layer_of_another_builder_is_unpacked(scripted: Any, connect: Any, tmp_path: Path) -> None:
    plain = tar_of({"etc/passwd": b"root", "kubedl-model/a/b.txt": b"text"})
    digest = put_image(scripted, [(media.DOCKER_LAYER_GZIP, gzip.compress(plain))], [digests.of(plain)])
    pulled = pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
    assert (tmp_path / "out" / "a" / "b.txt").read_text() == "text"
    assert not (tmp_path / "out" / "etc").exists()
    assert pulled.digest == digest


def test_the_model_is_where_the_config_says(scripted: Any, connect: Any, tmp_path: Path) -> None:
    plain = tar_of({"models/x/weights": b"1"})
    config = {"Env": ["PATH=/bin", "KUBEDL_MODEL_PATH=/models/x"]}
    put_image(scripted, [(media.DOCKER_LAYER, plain)], [digests.of(plain)], config=config)
    pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
    assert (tmp_path / "out" / "weights").read_text() == "1"


def test_a_later_layer_replaces_files_and_a_repeated_layer_is_fine(scripted: Any, connect: Any, tmp_path: Path) -> None:
    first, second = tar_of({"kubedl-model/a": b"1"}), tar_of({"kubedl-model/a": b"2"})
    layers = [(media.LAYER, first), (media.LAYER, second), (media.LAYER, first)]
    put_image(scripted, layers, [digests.of(data) for _, data in layers])
    pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "1"


PLAIN = tar_of({"kubedl-model/a": b"1"})
LINK = io.BytesIO()
with tarfile.open(fileobj=LINK, mode="w") as _tar:
    _entry = tarfile.TarInfo("kubedl-model/link")
    _entry.type, _entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    _tar.addfile(_entry)


@pytest.mark.parametrize(
    ("layers", "diff_ids", "config", "error", "reason"),
    [
        ([(media.LAYER_GZIP, gzip.compress(PLAIN))], [digests.of(b"x")], {}, Mismatch, "DigestMismatch"),
        ([(media.LAYER, PLAIN)], [], {}, Rejected, "ConfigUnknown"),
        ([(media.LAYER_ZSTD, PLAIN)], [digests.of(PLAIN)], {}, Rejected, "LayerTypeUnknown"),
        (
            [(media.LAYER, tar_of({"else/a": b""}))],
            [digests.of(tar_of({"else/a": b""}))],
            {},
            Invalid,
            "NoModelInImage",
        ),
        ([(media.LAYER, LINK.getvalue())], [digests.of(LINK.getvalue())], {}, Rejected, "ArchiveHasLinks"),
        (
            [(media.LAYER, PLAIN)],
            [digests.of(PLAIN)],
            {"config": {"Env": ["KUBEDL_MODEL_PATH=/../../etc"]}},
            Rejected,
            "ArchiveEscapes",
        ),
    ],
    ids=["diff id", "no diff ids", "zstd", "no model", "link", "path"],
)
def test_an_image_that_is_not_sound_is_refused(
    scripted: Any,
    connect: Any,
    tmp_path: Path,
    layers: Any,
    diff_ids: list[str],
    config: Any,
    error: type[ModelwrightError],
    reason: str,
) -> None:
    put_image(scripted, layers, diff_ids, **config)
    with pytest.raises(error) as caught:
        pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
    assert caught.value.reason == reason
    assert not (tmp_path / "out").exists()


def test_a_layer_is_never_fetched_from_its_urls(scripted: Any, foreign: Any, connect: Any, tmp_path: Path) -> None:
    config = json.dumps({"rootfs": {"diff_ids": [digests.of(PLAIN)]}}).encode()
    layer = {"mediaType": media.LAYER, "digest": digests.of(PLAIN), "size": len(PLAIN)}
    manifest = {
        "schemaVersion": 2,
        "config": {"mediaType": media.CONFIG, "digest": scripted.add("a/b", config), "size": len(config)},
        "layers": [layer | {"urls": [f"http://{foreign.host}/v2/a/b/blobs/{foreign.add('a/b', PLAIN)}"]}],
    }
    scripted.add_manifest("a/b", json.dumps(manifest).encode(), media.MANIFEST, "v1")
    with pytest.raises(NotFound):
        pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
    assert not foreign.seen


def test_a_folder_with_something_in_it_is_left_alone(scripted: Any, connect: Any, model: Path, tmp_path: Path) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))
    (tmp_path / "out").mkdir()
    pull(images, "v1", tmp_path / "out")
    with pytest.raises(AlreadyExists) as caught:
        pull(images, "v1", tmp_path / "out")
    assert caught.value.reason == "DestinationExists"


def test_two_pulls_to_one_place_do_not_mix(scripted: Any, connect: Any, model: Path, tmp_path: Path) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))

    def second(_handler: object) -> bool:
        with pytest.raises(Conflict) as caught:
            pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
        assert caught.value.reason == "PullUnderWay"
        outcomes.append(caught.value.reason)
        return False

    outcomes: list[str] = []
    scripted.on("GET", max(scripted.blobs, key=lambda key: len(scripted.blobs[key]))[1], second)
    pull(images, "v1", tmp_path / "out")
    assert outcomes == ["PullUnderWay"]


def test_a_full_disk_is_said_before_anything_is_fetched(scripted: Any, connect: Any, tmp_path: Path) -> None:
    config = json.dumps({"rootfs": {"diff_ids": [digests.of(b"")]}}).encode()
    manifest = {
        "schemaVersion": 2,
        "config": {"mediaType": media.CONFIG, "digest": scripted.add("a/b", config), "size": len(config)},
        "layers": [{"mediaType": media.LAYER, "digest": digests.of(b""), "size": 1 << 60}],
    }
    scripted.add_manifest("a/b", json.dumps(manifest).encode(), media.MANIFEST, "v1")
    with pytest.raises(Unavailable) as caught:
        pull(connect(scripted.host, "a/b"), "v1", tmp_path / "out")
    assert caught.value.reason == "DiskFull"


@pytest.mark.parametrize("tag", ["v1", "latest", "sha256:" + "0" * 64])
def test_an_image_that_is_not_there_is_not_found(scripted: Any, connect: Any, tmp_path: Path, tag: str) -> None:
    with pytest.raises(NotFound):
        pull(connect(scripted.host, "a/b"), tag, tmp_path / "out")


def test_verify_finds_nothing_wrong_with_a_sound_image(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "verify/model")
    push_folder(model, images, ("v1",))
    parts = list(verify(images, "v1"))
    assert len(parts) == 1 + 3 + 3 + 2
    assert not [part for part in parts if part.fault]


@pytest.mark.parametrize("damage", ["flip", "missing", "size", "type", "config"])
def test_verify_names_the_part_that_is_wrong(scripted: Any, connect: Any, model: Path, damage: str) -> None:
    images = connect(scripted.host, "a/b")
    pushed = push_folder(model, images, ("v1",))
    index = json.loads(scripted.manifests["a/b", pushed.digest][1])
    child = index["manifests"][0]["digest"]
    manifest = json.loads(scripted.manifests["a/b", child][1])
    layer = manifest["layers"][0]["digest"]
    tag = "v1"
    if damage == "flip":
        scripted.blobs["a/b", layer] = b"x" + scripted.blobs["a/b", layer][1:]
    elif damage == "missing":
        del scripted.blobs["a/b", layer]
    elif damage == "size":
        index["manifests"][0]["size"] += 1
        tag = scripted.add_manifest("a/b", json.dumps(index).encode(), media.INDEX)
    elif damage == "type":
        index["manifests"][0]["mediaType"] = media.DOCKER_MANIFEST
        tag = scripted.add_manifest("a/b", json.dumps(index).encode(), media.INDEX)
    else:
        manifest["layers"].reverse()
        tag = scripted.add_manifest("a/b", json.dumps(manifest).encode(), media.MANIFEST)
    wrong = {part.digest for part in verify(images, tag) if part.fault}
    assert wrong == {
        layer if damage in {"flip", "missing"} else manifest["config"]["digest"] if damage == "config" else child
    }


def test_prune_keeps_what_kept_tags_need(docker_registry: Any, connect: Any, model: Path, tmp_path: Path) -> None:
    images = connect(docker_registry.host, "prune/model")
    push_folder(model, images, ("v1",))
    kept = push_folder(model, images, ("keep",))
    (model / "config.json").write_text("changed")
    removed = push_folder(model, images, ("v2",))
    planned = plan(images, ("keep",))
    assert (planned.tags, planned.shared_tags, planned.manifests[0]) == (("v2",), ("v1",), removed.digest)
    carry_out(images, planned)
    assert "v2" not in images.tags()
    assert images.resolve(removed.digest) is None
    assert pull(images, "keep", tmp_path / "out").digest == kept.digest


def test_prune_says_if_the_registry_deletes_nothing(scripted: Any, connect: Any, faults: Any, model: Path) -> None:
    images = connect(scripted.host, "a/b")
    push_folder(model, images, ("v1",))
    scripted.on("DELETE", "manifests", faults.status(405), times=9)
    with pytest.raises(Invalid) as caught:
        carry_out(images, plan(images, ("none*",)))
    assert caught.value.reason == "DeletionNotSupported"


def modelwright(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelwright", "image", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_commands_work_together(docker_registry: Any, model: Path, tmp_path: Path, same_files: Any) -> None:
    ref = f"{docker_registry.host}/cli/whole:v1"
    digest = modelwright("build", model, ref).stdout.strip()
    inspected = modelwright("inspect", ref)
    assert digest in inspected.stdout
    assert "weights.bin" in inspected.stdout
    described = json.loads(modelwright("inspect", "--json", ref).stdout)
    assert described["platforms"] == ["linux/amd64", "linux/arm64", "linux/arm/v7"]
    pulled = modelwright("pull", ref, tmp_path / "out")
    assert pulled.stdout.strip() == digest
    assert same_files(tmp_path / "out", model)
    assert modelwright("verify", ref).returncode == 0
    dry = modelwright("prune", f"{docker_registry.host}/cli/whole", "--keep", "x", "--dry-run")
    assert f"{docker_registry.host}/cli/whole:v1" in dry.stdout
    assert modelwright("verify", ref).returncode == 0
    assert modelwright("prune", f"{docker_registry.host}/cli/whole", "--keep", "x").returncode == 0
    assert modelwright("verify", ref).returncode == 1


def test_verify_fails_for_a_damaged_image(scripted: Any, connect: Any, model: Path) -> None:
    push_folder(model, connect(scripted.host, "a/b"), ("v1",))
    key = max(scripted.blobs, key=lambda key: len(scripted.blobs[key]))
    scripted.blobs[key] = os.urandom(len(scripted.blobs[key]))
    done = modelwright("verify", f"{scripted.host}/a/b:v1")
    assert done.returncode == 1
    assert "do not use it" in done.stdout
    assert "ImageWrong" in done.stderr


def test_prune_frees_space_in_a_data_directory(model: Path, tmp_path: Path) -> None:
    images = LocalRepository(ImageStorage(tmp_path / "registry"), "a/b")
    push_folder(model, images, ("v1",))
    done = modelwright("prune", "--data-dir", tmp_path, "--grace", "0")
    assert done.returncode == 0, done.stderr
    assert "0 blobs" in done.stdout
    assert modelwright("prune", "--data-dir", model).returncode == 1


def test_an_unwritable_place_is_one_clear_line(docker_registry: Any, model: Path) -> None:
    ref = f"{docker_registry.host}/cli/unwritable:v1"
    assert modelwright("build", model, ref).returncode == 0
    done = modelwright("pull", ref, "/proc/nowhere/out")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_registry_that_wants_a_login_is_one_clear_line(locked_registry: Any, model: Path) -> None:
    done = modelwright("build", model, f"{locked_registry.host}/a/b:v1", "--ca-file", locked_registry.ca_file)
    assert done.returncode == 1
    assert "docker login" in done.stderr
    assert Forbidden.__name__ not in done.stderr
