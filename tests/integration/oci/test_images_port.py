"""The port `Images` on the disk and over the wire: both keep the same promises, and see each other's images."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from modelwright.oci import digests, media
from modelwright.oci.client import RegistryRepository
from modelwright.oci.credentials import Credentials
from modelwright.oci.local import LocalRepository
from modelwright.oci.pull import pull
from modelwright.oci.push import push_folder
from modelwright.oci.session import Options, Session
from modelwright.ports.errors import AlreadyExists, ModelwrightError, NotFound
from modelwright.ports.images import Images, Manifest


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.digest, self.size = data, digests.of(data), len(data)

    def open(self) -> AbstractContextManager[BinaryIO]:
        return io.BytesIO(self.data)


CONFIG, LAYER = Bytes(b"{}"), Bytes(b"layer " * 500_000)


def manifest(*layers: Bytes, **extra: Any) -> Manifest:
    def listed(content: Bytes, kind: str) -> dict[str, Any]:
        return {"mediaType": kind, "digest": content.digest, "size": content.size}

    content = {"schemaVersion": 2, "mediaType": media.MANIFEST, "config": listed(CONFIG, media.CONFIG)}
    data = json.dumps(content | {"layers": [listed(layer, media.LAYER) for layer in layers]} | extra).encode()
    return Manifest(media.MANIFEST, digests.of(data), data)


@pytest.fixture
def wire(registry: Any) -> Iterator[RegistryRepository]:
    options = Options(credentials=Credentials("me", registry.token), first_pause=0.01)
    with Session(registry.host, options) as session:
        yield RegistryRepository(session, "team/model")


@pytest.fixture
def disk(registry: Any) -> LocalRepository:
    return LocalRepository(registry.storage, "team/model", host=registry.host)


@pytest.fixture(params=["disk", "wire"])
def images(request: pytest.FixtureRequest) -> Images:
    repository: Images = request.getfixturevalue(request.param)
    return repository


@pytest.fixture(params=["disk", "wire"])
def other(request: pytest.FixtureRequest) -> Images:
    repository: Images = request.getfixturevalue(request.param)
    return repository


def read(images: Images, content: Bytes, offset: int = 0) -> bytes:
    with images.read_blob(content.digest, offset) as chunks:
        return b"".join(chunks)


def test_what_one_writes_the_other_reads(images: Images, other: Images) -> None:
    assert images.name == other.name
    assert images.tags() == []
    assert images.resolve("v1") is None
    for content in (CONFIG, LAYER):
        assert not images.has_blob(content.digest)
        images.write_blob(content)
        assert images.has_blob(content.digest)
    images.write_manifest(manifest(LAYER), "v1")
    assert other.tags() == ["v1"]
    assert other.resolve("v1") == images.resolve("v1") == images.resolve(manifest(LAYER).digest)
    assert other.read_manifest("v1") == manifest(LAYER)
    assert read(other, LAYER) == LAYER.data
    assert read(other, LAYER, 2_999_990) == LAYER.data[2_999_990:]


def test_missing_things_are_not_found(images: Images) -> None:
    with pytest.raises(NotFound):
        images.read_manifest("none")
    with pytest.raises(NotFound):
        images.read_manifest(digests.of(b"none"))
    with pytest.raises(NotFound):
        read(images, Bytes(b"none"))
    assert images.referrers(digests.of(b"none")) == []
    images.write_blob(CONFIG)
    with pytest.raises(ModelwrightError):
        images.write_manifest(manifest(Bytes(b"missing")), "v1")
    assert images.tags() == []


def test_a_tag_is_never_moved(images: Images, other: Images) -> None:
    images.write_blob(CONFIG)
    images.write_manifest(manifest(), "v1")
    other.write_manifest(manifest(), "v1")
    with pytest.raises(AlreadyExists) as caught:
        other.write_manifest(manifest(annotations={"a": "b"}), "v1")
    assert caught.value.reason == "ImageTagTaken"
    assert images.read_manifest("v1") == manifest()


def test_of_several_writers_of_one_tag_one_wins(disk: Images, wire: Images) -> None:
    disk.write_blob(CONFIG)
    disk.write_manifest(manifest())
    for turn in range(10):
        won: list[str] = []
        barrier = threading.Barrier(4)

        def write(
            images: Images, number: int, turn: int = turn, won: list[str] = won, barrier: threading.Barrier = barrier
        ) -> None:
            mine = manifest(annotations={"by": str(number)})
            barrier.wait()
            try:
                images.write_manifest(mine, f"t{turn}")
            except AlreadyExists:
                return
            won.append(mine.digest)

        threads = [threading.Thread(target=write, args=(images, n)) for n, images in enumerate((disk, wire) * 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [wire.read_manifest(f"t{turn}").digest]


def test_referrers_are_found(images: Images, other: Images) -> None:
    images.write_blob(CONFIG)
    images.write_manifest(manifest(), "v1")
    subject = {"mediaType": media.MANIFEST, "digest": manifest().digest, "size": len(manifest().data)}
    note = manifest(subject=subject, artifactType="application/x.note", annotations={"k": "v"})
    images.write_manifest(note)
    (found,) = other.referrers(manifest().digest)
    assert (found.digest, found.artifact_type, found.annotations) == (note.digest, "application/x.note", {"k": "v"})


def test_a_model_goes_in_and_comes_out(images: Images, other: Images, tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "vars").mkdir(parents=True)
    (model / "model.onnx").write_bytes(b"weights" * 300_000)
    (model / "vars/labels").write_text("cat\n")
    pushed = push_folder(model, images, ("v1",))
    pulled = pull(other, "v1", tmp_path / "out")
    assert pulled.digest == pushed.digest
    assert (tmp_path / "out/model.onnx").read_bytes() == (model / "model.onnx").read_bytes()
    assert (tmp_path / "out/vars/labels").read_text() == "cat\n"
    again = push_folder(model, other, ("v1",))
    assert (again.digest, again.uploaded_bytes) == (pushed.digest, 0)
