"""How the files of two images differ, in real registries, and how little of them is read for that."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from modelwright.oci import files, media
from modelwright.oci.files import Comparison, Side, compare
from modelwright.oci.push import push_folder
from modelwright.ports.errors import Mismatch, Rejected
from modelwright.ports.images import Images

LARGE = 9_000_000


def changed(found: Comparison) -> list[str]:
    return [old.path for old, _ in found.changed]


def names(found: tuple[files.File, ...]) -> list[str]:
    return [file.path for file in found]


def two(images: Images, old: str = "v1", new: str = "v2", **more: Any) -> Comparison:
    return compare(Side(images, old), Side(images, new), **more)


def test_files_are_added_removed_and_changed(docker_registry: Any, connect: Any, model: Path) -> None:
    images = connect(docker_registry.host, "files/all")
    push_folder(model, images, ("v1",))
    (model / "config.json").write_text("{ }")
    (model / "assets/vocabulary ünïcode.txt").unlink()
    (model / "assets/new.txt").write_text("new")
    push_folder(model, images, ("v2",))
    found = two(images)
    assert (names(found.added), names(found.removed), changed(found)) == (
        ["assets/new.txt"],
        ["assets/vocabulary ünïcode.txt"],
        ["config.json"],
    )
    ((old, new),) = found.changed
    assert (old.size, new.size) == (2, 3)
    assert (old.digest, new.digest) == tuple(f"sha256:{hashlib.sha256(x).hexdigest()}" for x in (b"{}", b"{ }"))
    assert (len(found.shared), len(found.only_before), len(found.only_after)) == (1, 1, 1)


def test_an_image_is_the_same_as_itself_and_only_manifests_are_read(scripted: Any, connect: Any, model: Path) -> None:
    images = connect(scripted.host, "files/same")
    push_folder(model, images, ("v1", "v2"))
    scripted.seen.clear()
    found = two(images, "v1", "v1")
    assert (found.added, found.removed, found.changed) == ((), (), ())
    assert len(found.shared) == 2
    layers = {layer.digest for layer in found.shared if media.FILE_PATH in layer.annotations}
    assert not [one for one in scripted.seen if any(digest in one.path for digest in layers)]


def test_a_large_file_that_changed_is_known_by_the_start_of_its_layer(scripted: Any, connect: Any, model: Path) -> None:
    images = connect(scripted.host, "files/large")
    push_folder(model, images, ("v1",))
    (model / "weights.bin").write_bytes(os.urandom(LARGE))
    (model / "more.bin").write_bytes(os.urandom(LARGE + 1))
    push_folder(model, images, ("v2",))
    ((old, new),) = two(images, contents=True).changed
    assert new.digest == "sha256:" + hashlib.sha256((model / "weights.bin").read_bytes()).hexdigest()
    assert old.digest != new.digest

    for key, data in scripted.blobs.items():  # who reads a large layer to its end finds it damaged
        if len(data) > LARGE:
            scripted.blobs[key] = data[:-2000] + bytes(2000)
    found = two(images)
    assert (changed(found), names(found.added)) == (["weights.bin"], ["more.bin"])
    ((old, new),) = found.changed
    assert (old.size, new.size, old.digest, new.digest) == (LARGE, LARGE, None, None)
    assert old.layer != new.layer
    with pytest.raises(Mismatch):
        two(images, contents=True)


def test_a_file_that_moves_between_its_own_layer_and_a_shared_one_is_compared_by_content(
    docker_registry: Any, connect: Any, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when so many large files are added that the limit for layers of their own rises."""
    from modelwright.oci import layers

    images = connect(docker_registry.host, "files/moved")
    push_folder(model, images, ("v1",))
    with monkeypatch.context() as patched:
        patched.setattr(layers, "LARGE", 10 * LARGE)
        push_folder(model, images, ("v2",))
        (model / "weights.bin").write_bytes(os.urandom(LARGE))
        push_folder(model, images, ("v3",))
    same = two(images)
    assert (same.added, same.removed, same.changed) == ((), (), ())
    assert (len(same.shared), len(same.only_after)) == (0, 1)
    assert changed(two(images, "v1", "v3")) == ["weights.bin"]
    assert changed(two(images, "v3", "v1")) == ["weights.bin"]


def test_images_of_two_registries_can_be_compared(
    docker_registry: Any, scripted: Any, connect: Any, model: Path
) -> None:
    one, other = connect(docker_registry.host, "files/one"), connect(scripted.host, "files/other")
    first = push_folder(model, one, ("v1",))
    (model / "config.json").write_text("other")
    second = push_folder(model, other, ("v2",))
    assert changed(compare(Side(one, first.digest), Side(other, second.digest))) == ["config.json"]


# Images of other builders ---------------------------------------------------------------------------------------------


def layer_of(entries: dict[str, bytes], *, mtime: int = 5, link: str = "") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), mtime
            tar.addfile(entry, io.BytesIO(content))
        if link:
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(entry)
    return data.getvalue()


def foreign(
    registry: Any, tag: str, *layers: bytes, zipped: bool = False, kind: str = media.LAYER, env: str = ""
) -> None:
    """An image as other tools make it."""
    blobs = [gzip.compress(layer, mtime=0) if zipped else layer for layer in layers]
    config = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"Env": [f"KUBEDL_MODEL_PATH={env}"] if env else []},
        "rootfs": {"diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]},
    }
    data = json.dumps(config).encode()
    listed = [
        {
            "mediaType": media.LAYER_GZIP if zipped else kind,
            "digest": registry.add("files/foreign", blob),
            "size": len(blob),
        }
        for blob in blobs
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "config": {"mediaType": media.CONFIG, "digest": registry.add("files/foreign", data), "size": len(data)},
        "layers": listed,
    }
    registry.add_manifest("files/foreign", json.dumps(manifest).encode(), media.MANIFEST, tag)


def test_layers_of_others_are_read_in_their_order(scripted: Any, connect: Any) -> None:
    below = layer_of({"kubedl-model/a": b"old", "kubedl-model/b": b"same", "etc/passwd": b"elsewhere"})
    foreign(scripted, "v1", below, layer_of({"kubedl-model/a": b"new"}))
    foreign(scripted, "v2", below, layer_of({"kubedl-model/c": b"more"}), zipped=False)
    found = two(connect(scripted.host, "files/foreign"))
    assert (names(found.added), names(found.removed), changed(found)) == (["c"], [], ["a"])
    ((_, new),) = found.changed
    assert new.digest == "sha256:" + hashlib.sha256(b"old").hexdigest()


def test_times_and_compression_change_no_file(scripted: Any, connect: Any) -> None:
    foreign(scripted, "v1", layer_of({"opt/model/a": b"same"}), env="/opt/model")
    foreign(scripted, "v2", layer_of({"opt/model/a": b"same"}, mtime=9), zipped=True, env="/opt/model")
    found = two(connect(scripted.host, "files/foreign"))
    assert (found.added, found.removed, found.changed) == ((), (), ())


def test_a_large_file_in_a_layer_of_others_is_compared_by_content(scripted: Any, connect: Any) -> None:
    content = os.urandom(LARGE)
    foreign(scripted, "v1", layer_of({"kubedl-model/w": content}))
    foreign(scripted, "v2", layer_of({"kubedl-model/w": content}, mtime=9))
    assert two(connect(scripted.host, "files/foreign")).changed == ()


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (layer_of({}, link="kubedl-model/link"), "ArchiveHasLinks"),
        (layer_of({"kubedl-model/../../etc/x": b""}), "ArchiveEscapes"),
        (layer_of({"kubedl-model/.wh.a": b""}), "ArchiveHasWhiteouts"),
        (b"no tar" * 1000, "ArchiveCorrupt"),
        (layer_of({"kubedl-model/a": b"x" * 2000})[:2000], "ArchiveTruncated"),
    ],
)
def test_what_no_pull_would_unpack_is_refused(scripted: Any, connect: Any, layer: bytes, reason: str) -> None:
    foreign(scripted, "v1", layer_of({"kubedl-model/a": b"x"}))
    foreign(scripted, "v2", layer)
    with pytest.raises(Rejected) as caught:
        two(connect(scripted.host, "files/foreign"))
    assert caught.value.reason == reason


def test_compression_that_we_do_not_read_is_named(scripted: Any, connect: Any) -> None:
    foreign(scripted, "v1", layer_of({"kubedl-model/a": b"x"}))
    foreign(scripted, "v2", b"zstd", kind=media.LAYER_ZSTD)
    with pytest.raises(Rejected) as caught:
        two(connect(scripted.host, "files/foreign"))
    assert caught.value.reason == "LayerTypeUnknown"


def test_a_layer_that_is_not_what_its_digest_says_is_refused(scripted: Any, connect: Any) -> None:
    foreign(scripted, "v1", layer_of({"kubedl-model/a": b"x"}))
    good = layer_of({"kubedl-model/a": b"y"})
    foreign(scripted, "v2", good)
    digest = "sha256:" + hashlib.sha256(good).hexdigest()
    scripted.blobs["files/foreign", digest] = layer_of({"kubedl-model/a": b"z"})
    with pytest.raises(Mismatch):
        two(connect(scripted.host, "files/foreign"))


def test_an_annotation_that_names_another_file_is_not_believed(scripted: Any, connect: Any, model: Path) -> None:
    images = connect(scripted.host, "files/lying")
    for tag in ("v1", "v2"):
        (model / "weights.bin").write_bytes(os.urandom(LARGE))
        push_folder(model, images, (tag,))
        index = json.loads(images.read_manifest(tag).data)
        kind, data = scripted.manifests["files/lying", index["manifests"][0]["digest"]]
        lie = data.replace(b'"weights.bin"', b'"../weights"')
        scripted.add_manifest("files/lying", lie, kind, f"{tag}-lie")
    found = two(images, "v1-lie", "v2-lie")
    assert changed(found) == ["weights.bin"]
    assert all(file.digest for pair in found.changed for file in pair), "it was read to find out"
