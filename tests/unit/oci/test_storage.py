"""Images on disk: several writers, killed writers, garbage."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from modelwright.oci import digests, media
from modelwright.oci.disk import link
from modelwright.oci.garbage import Collected, collect_garbage
from modelwright.oci.staging import Staged
from modelwright.oci.storage import ImageStorage
from modelwright.oci.stored import StoredRepository
from modelwright.ports.errors import AlreadyExists, Conflict, Invalid, Mismatch, NotFound, Rejected
from modelwright.ports.images import Digest, Manifest


@pytest.fixture
def storage(tmp_path: Path) -> ImageStorage:
    return ImageStorage(tmp_path / "images")


def descriptor(data: bytes, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digests.of(data), "size": len(data)}


def image(*layers: bytes, **extra: Any) -> Manifest:
    content = {
        "schemaVersion": 2,
        "mediaType": media.MANIFEST,
        "config": descriptor(b"{}", media.CONFIG),
        "layers": [descriptor(layer, media.LAYER) for layer in layers],
    }
    data = json.dumps(content | extra).encode()
    return Manifest(media.MANIFEST, digests.of(data), data)


def index(*children: Manifest) -> Manifest:
    listed = [descriptor(child.data, child.media_type) for child in children]
    data = json.dumps({"schemaVersion": 2, "mediaType": media.INDEX, "manifests": listed}).encode()
    return Manifest(media.INDEX, digests.of(data), data)


def add(repository: StoredRepository, *blobs: bytes) -> None:
    for blob in blobs:
        with repository.staging.new() as staged:
            staged.append([blob])
            repository.add_blobs([(staged, staged.digest())])


def files(storage: ImageStorage) -> list[str]:
    return sorted(str(p.relative_to(storage.root)) for p in storage.root.rglob("*") if p.is_file())


def read(repository: StoredRepository, digest: Digest) -> bytes:
    with os.fdopen(repository.open_blob(digest), "rb") as file:
        return file.read()


def test_a_blob_is_kept_once_for_all_repositories(storage: ImageStorage) -> None:
    one, two = storage.repository("one"), storage.repository("deep/er/two")
    add(one, b"shared")
    add(two, b"shared")
    digest = digests.of(b"shared")
    assert read(one, digest) == read(two, digest) == b"shared"
    assert one.blob_path(digest).samefile(two.blob_path(digest))
    assert list(storage.staging.folder.iterdir()) == []


def test_where_a_link_is_impossible_a_copy_is_made(tmp_path: Path) -> None:
    elsewhere = next(path for path in (Path("/proc/version"), Path("/dev/null")) if path.exists())
    link(elsewhere, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == elsewhere.read_bytes()
    with pytest.raises(FileExistsError):
        link(elsewhere, tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.parametrize(
    "name", ["", "A", "../a", "a/../b", "/a", "a/", "_blobs", "a/_tags", "a\0", "a\n", "a" * 256, "."]
)
def test_a_name_cannot_leave_the_root(storage: ImageStorage, name: str) -> None:
    with pytest.raises(Invalid):
        storage.repository(name)


def test_tags_and_digests_that_lead_out_are_refused(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    for wanted in ("../_lock", "..", "a/b", "sha256:../../x", "sha256:" + "g" * 64, "x\0", ""):
        with pytest.raises(Invalid):
            repository.read_manifest(wanted)
        with pytest.raises((Invalid, NotFound)):
            repository.delete_tag(wanted)
        with pytest.raises(Invalid):
            repository.put_manifest(image(), wanted)
    assert files(storage) == []


def test_a_tag_is_put_once_and_never_moved_unless_asked(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"{}", b"1", b"2")
    repository.put_manifest(image(b"1"), "v1")
    repository.put_manifest(image(b"1"), "v1")
    with pytest.raises(AlreadyExists) as caught:
        repository.put_manifest(image(b"2"), "v1")
    assert caught.value.reason == "ImageTagTaken"
    assert repository.read_manifest("v1") == image(b"1")
    repository.put_manifest(image(b"2"), "v1", move=True)
    assert repository.read_manifest("v1") == image(b"2")
    assert repository.tags() == ["v1"]
    assert list(storage.staging.folder.iterdir()) == []


def test_a_manifest_needs_its_parts_in_their_lengths(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"{}")
    with pytest.raises(NotFound) as caught:
        repository.put_manifest(image(b"x"), "v1")
    assert caught.value.reason == "ManifestBlobUnknown"
    with pytest.raises(NotFound) as caught:
        repository.put_manifest(index(image()), "v1")
    assert caught.value.reason == "ManifestChildUnknown"
    wrong = image().data.replace(b'"size": 2', b'"size": 3')
    with pytest.raises(Mismatch):
        repository.put_manifest(Manifest(media.MANIFEST, digests.of(wrong), wrong), "v1")
    with pytest.raises(Mismatch):
        repository.put_manifest(Manifest(media.MANIFEST, digests.of(b"other"), image().data), "v1")
    assert repository.tags() == []
    assert list(storage.staging.folder.iterdir()) == []


def test_a_damaged_manifest_is_noticed(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"{}")
    manifest = image()
    repository.put_manifest(manifest, "v1")
    path = storage.root / "repositories/a/_manifests" / digests.hexadecimal(manifest.digest)
    path.write_bytes(manifest.data.replace(b"2", b"3", 1))
    for wanted in ("v1", manifest.digest):
        with pytest.raises(Mismatch):
            repository.read_manifest(wanted)


def test_what_is_needed_is_not_deleted(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"{}", b"x")
    repository.put_manifest(image(b"x"))
    repository.put_manifest(index(image(b"x")), "all")
    with pytest.raises(Rejected):
        repository.delete_blob(digests.of(b"x"))
    with pytest.raises(Rejected):
        repository.delete_manifest(image(b"x").digest)
    repository.delete_manifest(index(image(b"x")).digest)
    assert repository.tags() == []
    repository.delete_manifest(image(b"x").digest)
    repository.delete_blob(digests.of(b"x"))
    with pytest.raises(NotFound):
        repository.open_blob(digests.of(b"x"))


# Uploads


def test_an_upload_is_written_by_one_at_a_time_and_resumed_by_anybody(storage: ImageStorage) -> None:
    with storage.staging.new() as staged:
        staged.append([b"first ", b"second "])
        with pytest.raises(Conflict):
            storage.staging.resume(staged.id)
    with storage.staging.resume(staged.id) as again:
        assert again.size == 13
        again.append([b"third"])
        assert again.digest() == digests.of(b"first second third")
    with pytest.raises(NotFound):
        storage.staging.resume("0" * 32)
    for name in ("../blobs", "", ".", "x" * 32):
        with pytest.raises(NotFound):
            storage.staging.resume(name)


def test_a_hash_that_is_out_of_date_is_not_used(storage: ImageStorage) -> None:
    with storage.staging.new() as staged:
        staged.append([b"one"])
        known = staged.hashed
    with storage.staging.resume(staged.id) as again:
        again.append([b"two"])
    with storage.staging.resume(staged.id) as last:
        last.continue_hash(known)
        assert last.digest() == digests.of(b"onetwo")


# Garbage


def test_garbage_is_what_no_manifest_needs(storage: ImageStorage) -> None:
    kept, other = storage.repository("kept"), storage.repository("other")
    add(kept, b"{}", b"layer", b"orphan" * 100)
    kept.put_manifest(image(b"layer"), "v1")
    add(other, b"layer")
    with storage.staging.new() as left:
        left.append([b"half an upload"])
    collected = collect_garbage(storage, 0)
    assert collected == Collected(blobs=2, uploads=1, bytes=600 + 14)
    assert read(kept, digests.of(b"layer")) == b"layer"
    assert not kept.has_blob(digests.of(b"orphan" * 100))
    assert not other.has_blob(digests.of(b"layer"))
    assert collect_garbage(storage, 0) == Collected()
    assert sorted(p.name for p in storage.blobs.iterdir()) == sorted(
        digests.hexadecimal(digests.of(data)) for data in (b"{}", b"layer")
    )


def test_nothing_is_garbage_within_its_time_of_grace(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"orphan")
    with storage.staging.new() as left:
        left.append([b"x"])
    assert collect_garbage(storage, 3600) == Collected()
    assert repository.has_blob(digests.of(b"orphan"))


def test_an_upload_that_is_being_written_is_never_swept(storage: ImageStorage) -> None:
    with storage.staging.new() as staged:
        staged.append([b"slow"])
        assert collect_garbage(storage, 0) == Collected()
        staged.append([b" writer"])
        storage.repository("a").add_blobs([(staged, staged.digest())])
    assert read(storage.repository("a"), digests.of(b"slow writer")) == b"slow writer"


def test_a_process_that_was_killed_leaves_only_what_is_swept(storage: ImageStorage) -> None:
    program = f"""
        import sys, time
        from pathlib import Path
        from modelwright.oci.storage import ImageStorage
        with ImageStorage(Path({str(storage.root)!r})).staging.new() as staged:
            staged.append([b"x" * 100_000])
            print("written", flush=True)
            time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        assert collect_garbage(storage, 0).uploads == 0
        process.send_signal(signal.SIGKILL)
    assert collect_garbage(storage, 0) == Collected(uploads=1, bytes=100_000)
    assert files(storage) == []


def test_untagged_manifests_are_garbage_only_on_request(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"{}", b"1", b"2", b"3")
    one, two, alone = image(b"1"), image(b"2"), image(b"3")
    note = image(subject=descriptor(one.data, one.media_type))
    for manifest in (one, two, alone, note):
        repository.put_manifest(manifest)
    repository.put_manifest(index(one, two), "all")
    assert collect_garbage(storage, 0) == Collected()
    collected = collect_garbage(storage, 0, untagged=True)
    assert (collected.manifests, collected.blobs) == (1, 1)
    assert repository.digests() == sorted(m.digest for m in (one, two, note, index(one, two)))
    repository.delete_tag("all")
    collect_garbage(storage, 0, untagged=True)
    assert repository.digests() == []
    assert repository.referrers(one.digest) == []


def test_a_repository_with_a_damaged_manifest_is_left_alone(storage: ImageStorage) -> None:
    repository = storage.repository("a")
    add(repository, b"{}", b"orphan")
    repository.put_manifest(image(), "v1")
    (storage.root / "repositories/a/_manifests" / digests.hexadecimal(image().digest)).write_bytes(b"?")
    assert collect_garbage(storage, 0) == Collected()
    assert repository.has_blob(digests.of(b"orphan"))


def _write_and_forget(storage: ImageStorage, number: int, missing: list[str]) -> None:
    """A client: it uploads what it is told is not there, and pushes a manifest."""
    repository = storage.repository(f"r{number % 2}")
    for turn in range(40):
        data = f"{turn % 5}".encode() * 100
        for blob in (b"{}", data):
            if not repository.has_blob(digests.of(blob)):
                add(repository, blob)
        try:
            repository.put_manifest(image(data), f"t{number}-{turn}")
        except NotFound as error:
            missing.append(error.reason)
            continue
        read(repository, digests.of(data))
        repository.delete_tag(f"t{number}-{turn}")


def test_collecting_beside_writers_never_takes_what_a_manifest_needs(storage: ImageStorage) -> None:
    stop = threading.Event()
    missing: list[str] = []

    def collect() -> None:
        while not stop.is_set():
            collect_garbage(storage, 0.2, untagged=True)

    threads = [threading.Thread(target=_write_and_forget, args=(storage, number, missing)) for number in range(3)]
    collector = threading.Thread(target=collect)
    for thread in (*threads, collector):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    collector.join()
    for name in storage.repositories():
        for digest in storage.repository(name).referenced():
            read(storage.repository(name), digest)
    assert set(missing) <= {"ManifestBlobUnknown"}


# Several processes


def _push_same(root: str, number: int, start: Any) -> None:
    repository = ImageStorage(Path(root)).repository("team/model")
    start.wait()
    for turn in range(15):
        layer = f"content {turn}".encode() * 100
        add(repository, b"{}", layer)
        try:
            repository.put_manifest(image(layer, annotations={"by": str(number % 2)}), f"t{turn}")
        except AlreadyExists:
            repository.put_manifest(image(layer, annotations={"by": str(number % 2)}), f"t{turn}-{number % 2}")


def test_several_processes_push_the_same_at_once(storage: ImageStorage) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Event()
    processes = [context.Process(target=_push_same, args=(str(storage.root), n, start)) for n in range(4)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    repository = storage.repository("team/model")
    assert {f"t{turn}" for turn in range(15)} <= set(repository.tags())
    for tag in repository.tags():
        for child in json.loads(repository.read_manifest(tag).data)["layers"]:
            data = read(repository, child["digest"])
            assert digests.of(data) == child["digest"]
    assert list(storage.staging.folder.iterdir()) == []


def test_a_writer_killed_at_any_moment_leaves_only_whole_content(storage: ImageStorage) -> None:
    program = f"""
        import json, os
        from pathlib import Path
        from modelwright.oci.local import LocalRepository
        from modelwright.oci.push import push_folder
        from modelwright.oci.storage import ImageStorage
        root = Path({str(storage.root)!r})
        model = root.parent / "model"
        model.mkdir(exist_ok=True)
        for turn in range(10_000):
            (model / "small").write_bytes(os.urandom(1000))
            (model / "large").write_bytes(os.urandom(600_000))
            done = push_folder(model, LocalRepository(ImageStorage(root), "a"), (f"t{{os.getpid()}}-{{turn}}",))
            print(done.tag, done.digest, flush=True)
    """
    acknowledged: list[list[str]] = []
    for delay in (0.0, 0.011, 0.023, 0.037, 0.05, 0.071):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            acknowledged.append(process.stdout.readline().split())
            deadline = time.monotonic() + delay
            while time.monotonic() < deadline:
                pass
            process.kill()
            acknowledged += [line.split() for line in process.stdout if line.endswith("\n")]
    repository = storage.repository("a")
    for tag, digest in acknowledged:
        assert repository.read_manifest(tag).digest == digest
    for path in (storage.root / "repositories/a/_blobs").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    blobs = {Digest(f"sha256:{path.name}") for path in (storage.root / "repositories/a/_blobs").iterdir()}
    assert repository.referenced() <= blobs | set(repository.digests())
    collect_garbage(storage, 0)
    assert list(storage.staging.folder.iterdir()) == []


def test_staged_content_counts_what_it_wrote(storage: ImageStorage) -> None:
    staged: Staged
    with storage.staging.new() as staged:
        staged.append([])
        staged.append([b"", b"ab", b"c"])
        assert (staged.size, staged.digest()) == (3, digests.of(b"abc"))
        staged.discard()
        staged.discard()
    with pytest.raises(NotFound):
        storage.staging.resume(staged.id)
