"""Documents that are attached to images: on disk, with garbage collection and pruning."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwright.oci import digests, manifests, media
from modelwright.oci.garbage import collect_garbage
from modelwright.oci.image import Blob, manifest_of
from modelwright.oci.local import LocalRepository
from modelwright.oci.push import Pushed, push_folder
from modelwright.oci.referrers import MAX_READ, Artifact, Attached, attach, attached
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import NotFound
from modelwright.ports.images import Digest

TYPE = "application/vnd.in-toto+json"
NOTE = Artifact(TYPE, b'{"note": 1}', {"kind": "note"})
LIMIT = 1000


@pytest.fixture
def storage(tmp_path: Path) -> ImageStorage:
    return ImageStorage(tmp_path / "images")


@pytest.fixture
def images(storage: ImageStorage) -> LocalRepository:
    return LocalRepository(storage, "team/model", host="127.0.0.1:5000")


@pytest.fixture
def pushed(tmp_path: Path, images: LocalRepository) -> Pushed:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights.bin").write_bytes(b"weights")
    return push_folder(tmp_path / "model", images, ("v1",))


def documents(images: LocalRepository, digest: Digest) -> tuple[bytes, ...]:
    return attached(images, digest, TYPE, LIMIT).documents


def test_a_document_is_attached_and_found(images: LocalRepository, pushed: Pushed) -> None:
    referrer = attach(images, pushed.digest, NOTE)
    (found,) = images.referrers(pushed.digest)
    assert (found.digest, found.artifact_type, found.annotations) == (referrer, TYPE, {"kind": "note"})
    assert attached(images, pushed.digest, TYPE, LIMIT) == Attached((NOTE.data,))
    assert images.tags() == ["v1"]
    content = manifests.decode(images.read_manifest(referrer))
    assert isinstance(content, manifests.ImageManifest)
    assert content.config.media_type == "application/vnd.oci.empty.v1+json"
    assert content.subject
    assert (content.subject.media_type, content.subject.digest) == (media.INDEX, pushed.digest)
    assert content.subject.size == len(images.read_manifest(pushed.digest).data)


def test_the_same_document_again_adds_nothing(images: LocalRepository, storage: ImageStorage, pushed: Pushed) -> None:
    first = attach(images, pushed.digest, NOTE)
    before = storage.repository("team/model").digests()
    assert attach(images, pushed.digest, NOTE) == first
    assert storage.repository("team/model").digests() == before
    other = Artifact(TYPE, b"{}")
    assert attach(images, pushed.digest, other) != first
    assert sorted(documents(images, pushed.digest)) == sorted([NOTE.data, other.data])


def test_there_must_be_an_image_to_attach_to(images: LocalRepository, pushed: Pushed) -> None:
    with pytest.raises(NotFound):
        attach(images, digests.of(b"nothing"), NOTE)


def test_artifacts_of_other_types_are_counted(images: LocalRepository, pushed: Pushed) -> None:
    attach(images, pushed.digest, NOTE)
    attach(images, pushed.digest, Artifact("application/spdx+json", b"{}"))
    assert attached(images, pushed.digest, TYPE, LIMIT) == Attached((NOTE.data,), others=1)


def test_what_is_too_large_is_refused_and_spoils_nothing(images: LocalRepository, pushed: Pushed) -> None:
    attach(images, pushed.digest, NOTE)
    attach(images, pushed.digest, Artifact(TYPE, b"x" * (LIMIT + 1)))
    found = attached(images, pushed.digest, TYPE, LIMIT)
    assert found.documents == (NOTE.data,)
    assert "1001 bytes, more than 1000" in found.refused[0]


def test_only_so_many_are_read(images: LocalRepository, pushed: Pushed) -> None:
    with images.batch():
        for number in range(MAX_READ + 3):
            attach(images, pushed.digest, Artifact(TYPE, str(number).encode()))
    found = attached(images, pushed.digest, TYPE, LIMIT)
    assert len(found.documents) == MAX_READ
    assert found.refused == ("3 more are not read: there are too many",)


def test_an_index_that_refers_to_an_image_holds_no_document(images: LocalRepository, pushed: Pushed) -> None:
    subject = images.resolve(pushed.digest)
    content = {"schemaVersion": 2, "mediaType": media.INDEX, "artifactType": TYPE, "manifests": [], "subject": subject}
    images.write_manifest(manifest_of(media.INDEX, content))
    assert attached(images, pushed.digest, TYPE, LIMIT) == Attached()


def test_a_document_that_is_damaged_is_told(images: LocalRepository, storage: ImageStorage, pushed: Pushed) -> None:
    attach(images, pushed.digest, NOTE)
    storage.repository("team/model").blob_path(digests.of(NOTE.data)).write_bytes(b"other bytes")
    found = attached(images, pushed.digest, TYPE, LIMIT)
    assert found.documents == ()
    assert "do not use it" in found.refused[0]


# Garbage


@pytest.mark.parametrize("untagged", [False, True])
def test_what_refers_to_an_image_stays_as_long_as_the_image(
    images: LocalRepository, storage: ImageStorage, pushed: Pushed, untagged: bool
) -> None:
    note = attach(images, pushed.digest, NOTE)
    attach(images, note, Artifact("application/vnd.example.signature", b"signed"))
    collect_garbage(storage, 0, untagged=untagged)
    assert documents(images, pushed.digest) == (NOTE.data,)
    assert len(images.referrers(note)) == 1


@pytest.mark.parametrize("untagged", [False, True])
def test_what_refers_to_an_image_goes_with_it(
    images: LocalRepository, storage: ImageStorage, pushed: Pushed, untagged: bool
) -> None:
    note = attach(images, pushed.digest, NOTE)
    attach(images, note, Artifact("application/vnd.example.signature", b"signed"))
    repository = storage.repository("team/model")
    repository.delete_manifest(pushed.digest)
    collect_garbage(storage, 3600, untagged=untagged)
    assert note in repository.digests(), "not within the time of grace"
    collect_garbage(storage, 0, untagged=untagged)
    assert images.referrers(pushed.digest) == []
    assert note not in repository.digests()
    assert not repository.has_blob(digests.of(NOTE.data))
    assert not repository.has_blob(digests.of(b"signed"))


def test_what_has_a_tag_or_an_index_outlives_its_subject(
    images: LocalRepository, storage: ImageStorage, pushed: Pushed
) -> None:
    images.write_blob(Blob(b"{}", digests.of(b"{}")))
    gone = {"mediaType": media.INDEX, "digest": digests.of(b"gone"), "size": 4}

    def referrer(name: str) -> dict[str, object]:
        config = {"mediaType": media.EMPTY, "digest": digests.of(b"{}"), "size": 2}
        content = {"schemaVersion": 2, "mediaType": media.MANIFEST, "artifactType": TYPE, "config": config}
        return {**content, "layers": [], "subject": gone, "annotations": {"name": name}}

    tagged, listed, alone = (manifest_of(media.MANIFEST, referrer(name)) for name in ("tagged", "listed", "alone"))
    images.write_manifest(tagged, "kept")
    images.write_manifest(listed)
    images.write_manifest(alone)
    entry = {"mediaType": media.MANIFEST, "digest": listed.digest, "size": len(listed.data)}
    index = manifest_of(media.INDEX, {"schemaVersion": 2, "mediaType": media.INDEX, "manifests": [entry]})
    images.write_manifest(index)
    assert collect_garbage(storage, 0).manifests == 1
    known = storage.repository("team/model").digests()
    assert {tagged.digest, listed.digest, index.digest} <= set(known)
    assert alone.digest not in known
