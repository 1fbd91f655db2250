"""The repository on disk as the port `Images`."""

from __future__ import annotations

import io
import json
import resource
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from modelwright.oci import digests, media
from modelwright.oci.local import LocalRepository
from modelwright.oci.push import push_folder
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import AlreadyExists, Conflict, NotFound, Unavailable
from modelwright.ports.images import Descriptor, Digest, Images, Manifest


class Bytes:
    """Content from memory."""

    def __init__(self, data: bytes, *, digest: Digest | None = None) -> None:
        self.data = data
        self.digest = digest or digests.of(data)
        self.size = len(data)

    def open(self) -> AbstractContextManager[BinaryIO]:
        return io.BytesIO(self.data)


LARGE = Bytes(b"large " * 200_000)
SMALL = Bytes(b"{}")


def manifest(*layers: Bytes, **extra: Any) -> Manifest:
    def listed(content: Bytes, kind: str) -> dict[str, Any]:
        return {"mediaType": kind, "digest": content.digest, "size": content.size}

    layer_list = [listed(layer, media.LAYER) for layer in layers]
    content = {"schemaVersion": 2, "mediaType": media.MANIFEST, "config": listed(SMALL, media.CONFIG)}
    data = json.dumps(content | {"layers": layer_list} | extra).encode()
    return Manifest(media.MANIFEST, digests.of(data), data)


@pytest.fixture
def storage(tmp_path: Path) -> ImageStorage:
    return ImageStorage(tmp_path / "images")


@pytest.fixture
def images(storage: ImageStorage) -> LocalRepository:
    return LocalRepository(storage, "team/model", host="127.0.0.1:5000")


def read(images: Images, digest: Digest, offset: int = 0) -> bytes:
    with images.read_blob(digest, offset) as chunks:
        return b"".join(chunks)


def test_it_keeps_what_the_port_promises(images: Images) -> None:
    assert images.name == "127.0.0.1:5000/team/model"
    moved: list[int] = []
    for content in (SMALL, LARGE):
        assert not images.has_blob(content.digest)
        images.write_blob(content, progress=moved.append)
        images.write_blob(content, progress=moved.append)
        assert images.has_blob(content.digest)
        assert read(images, content.digest) == content.data
        assert read(images, content.digest, 1) == content.data[1:]
    assert sum(moved) == SMALL.size + LARGE.size
    found = manifest(LARGE)
    assert images.resolve("v1") is None
    images.write_manifest(found, "v1")
    assert images.read_manifest("v1") == images.read_manifest(found.digest) == found
    assert images.resolve("v1") == Descriptor(media.MANIFEST, found.digest, len(found.data))
    assert images.tags() == ["v1"]
    with pytest.raises(NotFound):
        read(images, digests.of(b"none"))
    with pytest.raises(NotFound):
        images.read_manifest("none")


def test_a_tag_is_not_moved(images: Images) -> None:
    images.write_blob(SMALL)
    images.write_manifest(manifest(), "v1")
    images.write_manifest(manifest(), "v1")
    with pytest.raises(AlreadyExists) as caught:
        images.write_manifest(manifest(annotations={"a": "b"}), "v1")
    assert caught.value.reason == "ImageTagTaken"
    assert images.read_manifest("v1") == manifest()


def test_what_is_acknowledged_is_seen_by_others(storage: ImageStorage, images: LocalRepository) -> None:
    other = LocalRepository(storage, "team/model")
    images.write_blob(SMALL)
    images.write_manifest(manifest(), "v1")
    assert other.name == "team/model"
    assert read(other, SMALL.digest) == SMALL.data
    assert other.read_manifest("v1") == manifest()


def test_a_batch_appears_with_its_tag_or_at_its_end(storage: ImageStorage, images: LocalRepository) -> None:
    other = LocalRepository(storage, "team/model")
    one, two = manifest(), manifest(annotations={"a": "b"})
    with images.batch():
        images.write_blob(SMALL)
        images.write_manifest(one)
        assert images.resolve(one.digest) is not None
        assert other.resolve(one.digest) is None
        images.write_manifest(two, "v1")
        assert other.resolve(one.digest) is not None
    with images.batch():
        images.write_manifest(manifest(annotations={"c": "d"}))
    assert other.resolve(manifest(annotations={"c": "d"}).digest) is not None


def test_a_batch_that_fails_leaves_nothing(storage: ImageStorage, images: LocalRepository) -> None:
    with pytest.raises(ZeroDivisionError), images.batch():
        images.write_blob(SMALL)
        images.write_manifest(manifest())
        raise ZeroDivisionError
    assert LocalRepository(storage, "team/model").resolve(manifest().digest) is None
    assert images.resolve(manifest().digest) is None


def test_a_missing_part_is_refused_and_a_later_attempt_works(images: LocalRepository) -> None:
    images.write_blob(SMALL)
    with pytest.raises(NotFound):
        images.write_manifest(manifest(LARGE), "v1")
    images.write_blob(LARGE)
    images.write_manifest(manifest(LARGE), "v1")
    assert images.tags() == ["v1"]


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_content_that_changed_is_not_stored(storage: ImageStorage, images: LocalRepository, size: int) -> None:
    with pytest.raises(Conflict) as caught:
        images.write_blob(Bytes(b"x" * size, digest=digests.of(b"before")))
    assert caught.value.reason == "StorageChanged"
    assert not images.has_blob(digests.of(b"before"))
    assert list(storage.staging.folder.iterdir()) == []


def test_blobs_are_taken_from_other_repositories_without_reading(storage: ImageStorage) -> None:
    one = LocalRepository(storage, "one", host="h:1")
    one.write_blob(LARGE)
    moved: list[int] = []
    for name, sources in (("two", ("h:1/one",)), ("three", ("one",)), ("four", ("missing",)), ("five", ())):
        LocalRepository(storage, name, host="h:1").write_blob(LARGE, sources=sources, progress=moved.append)
        assert read(LocalRepository(storage, name), LARGE.digest) == LARGE.data
    assert moved == []


def test_referrers_are_found(images: LocalRepository) -> None:
    images.write_blob(SMALL)
    images.write_manifest(manifest(), "v1")
    subject = {"mediaType": media.MANIFEST, "digest": manifest().digest, "size": len(manifest().data)}
    note = manifest(subject=subject, artifactType="application/x.note")
    images.write_manifest(note)
    (found,) = images.referrers(manifest().digest)
    assert (found.digest, found.artifact_type) == (note.digest, "application/x.note")
    assert images.referrers(note.digest) == []


def test_several_threads_write_blobs_at_once(images: LocalRepository) -> None:
    contents = [Bytes(f"{number}".encode() * (400_000 if number % 5 == 0 else 10)) for number in range(40)]

    def write(start: int) -> None:
        for content in contents[start:] + contents[:start]:
            images.write_blob(content)

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    images.write_blob(SMALL)
    images.write_manifest(manifest(*contents), "v1")
    for content in contents:
        assert read(images, content.digest) == content.data


def test_many_small_blobs_do_not_pile_up_in_memory(storage: ImageStorage, images: LocalRepository) -> None:
    contents = [Bytes(bytes([number]) * 200_000) for number in range(60)]
    for content in contents:
        images.write_blob(content)
    waiting = [c for c in contents if not LocalRepository(storage, "team/model").has_blob(c.digest)]
    assert len(waiting) * 200_000 < 1 << 23


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond this: the system's own limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_leaves_nothing(storage: ImageStorage, images: LocalRepository) -> None:
    images.write_blob(SMALL)
    with full_disk(300_000), pytest.raises(Unavailable) as caught:
        images.write_blob(LARGE)
    assert caught.value.reason == "DiskFull"
    with full_disk(10), pytest.raises(Unavailable):
        images.write_manifest(manifest(), "v1")
    assert list(storage.staging.folder.iterdir()) == []
    images.write_manifest(manifest(), "v1")
    assert images.read_manifest("v1") == manifest()


def test_a_model_is_built_into_it_twice_with_one_digest(storage: ImageStorage, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.onnx").write_bytes(b"weights" * 100_000)
    (model / "labels.txt").write_text("cat\ndog\n")
    first = push_folder(model, LocalRepository(storage, "a"), ("v1",))
    second = push_folder(model, LocalRepository(storage, "a"), ("v1",))
    third = push_folder(model, LocalRepository(storage, "b"), ("v9",))
    assert first.digest == second.digest == third.digest
    assert LocalRepository(storage, "a").tags() == ["v1"]
    assert list(storage.staging.folder.iterdir()) == []
