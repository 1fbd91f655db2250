"""What `up` does with the registry's garbage at its start."""

from __future__ import annotations

import hashlib
import logging
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from modelwright.oci.local import LocalRepository
from modelwright.oci.push import push_folder
from modelwright.oci.storage import ImageStorage
from modelwright.ports.images import Digest
from modelwright.up.control_plane import collect_in_background


@pytest.fixture
def images(tmp_path: Path) -> ImageStorage:
    """An image that is whole."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.onnx").write_bytes(b"weights")
    images = ImageStorage(tmp_path / "data/registry")
    push_folder(tmp_path / "model", LocalRepository(images, "a/b", host="127.0.0.1:1"), ("v1",))
    return images


def forgotten(images: ImageStorage) -> Path:
    """A blob that no manifest needs."""
    repository = images.repository("a/b")
    data = b"forgotten"
    digest = Digest("sha256:" + hashlib.sha256(data).hexdigest())
    with repository.staging.new() as staged:
        staged.append([data])
        repository.add_blobs([(staged, digest)])
    return repository.blob_path(digest)


def state_of(root: Path) -> dict[str, tuple[int, int, int]]:
    """Every file and folder with what a change would change."""
    found = ((path, path.lstat()) for path in sorted(root.rglob("*")))
    return {str(path): (state.st_mtime_ns, state.st_ctime_ns, state.st_ino) for path, state in found}


@pytest.mark.anyio
async def test_garbage_is_collected_once_and_the_stop_waits_for_it(images: ImageStorage) -> None:
    blob = forgotten(images)
    async with AsyncExitStack() as stack:
        collect_in_background(stack, images, keep_seconds=0)
        assert blob.exists()
    assert not blob.exists()
    assert images.repository("a/b").tags() == ["v1"]


@pytest.mark.anyio
async def test_what_is_younger_than_a_day_stays(images: ImageStorage) -> None:
    blob = forgotten(images)
    async with AsyncExitStack() as stack:
        collect_in_background(stack, images)
    assert blob.exists()


@pytest.mark.anyio
async def test_nothing_is_written_if_there_is_nothing_to_collect(images: ImageStorage) -> None:
    before = state_of(images.root)
    async with AsyncExitStack() as stack:
        collect_in_background(stack, images, keep_seconds=0)
    assert state_of(images.root) == before


@pytest.mark.anyio
async def test_a_failure_is_logged_and_ends_nothing(images: ImageStorage, caplog: pytest.LogCaptureFixture) -> None:
    images.staging.folder.rmdir()
    images.staging.folder.write_bytes(b"no folder")
    async with AsyncExitStack() as stack:
        collect_in_background(stack, images, keep_seconds=0)
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "garbage could not be collected" in record.getMessage()
    assert record.exc_info
