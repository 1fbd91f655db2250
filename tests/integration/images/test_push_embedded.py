"""The client against the registry inside `modelwright up`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.registries import TOKEN, embedded_registry

from modelwright.oci import digests, media
from modelwright.oci.credentials import Credentials
from modelwright.oci.image import Blob, manifest_of
from modelwright.oci.prune import carry_out, plan
from modelwright.oci.pull import pull
from modelwright.oci.push import push_folder
from modelwright.oci.session import Options
from modelwright.oci.verify import verify
from modelwright.ports.errors import AlreadyExists, Forbidden


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[str]:
    """Host and port of a registry with an empty storage."""
    with embedded_registry(tmp_path / "storage") as host:
        yield host


LOGGED_IN = Options(credentials=Credentials("me", TOKEN))


def test_an_image_makes_the_whole_round(
    embedded: str, connect: Any, model: Path, tmp_path: Path, same_files: Any
) -> None:
    images = connect(embedded, "hub/model", LOGGED_IN)
    first, second = push_folder(model, images, ("v1",)), push_folder(model, images, ("v1",))
    assert (first.uploaded_layers, second.uploaded_layers, second.digest) == (2, 0, first.digest)
    mounted = push_folder(model, connect(embedded, "hub/other", LOGGED_IN), ("v1",), sources=("hub/model",))
    assert (mounted.uploaded_layers, mounted.digest) == (0, first.digest)
    stranger = connect(embedded, "hub/model")
    assert not [part for part in verify(stranger, "v1") if part.fault]
    assert pull(stranger, "v1", tmp_path / "out").digest == first.digest
    assert same_files(tmp_path / "out", model)


def test_pushing_takes_a_login(embedded: str, connect: Any, model: Path) -> None:
    with pytest.raises(Forbidden) as caught:
        push_folder(model, connect(embedded, "hub/model"), ("v1",))
    assert caught.value.reason == "RegistryUnauthorized"


def test_a_tag_is_not_moved_and_pruning_removes_what_no_tag_needs(embedded: str, connect: Any, model: Path) -> None:
    images = connect(embedded, "hub/model", LOGGED_IN)
    kept = push_folder(model, images, ("v1",))
    (model / "config.json").write_text("changed")
    with pytest.raises(AlreadyExists):
        push_folder(model, images, ("v1",))
    removed = push_folder(model, images, ("v1", "v2"))
    carry_out(images, plan(images, ("v1",)))
    assert images.tags() == ["v1"]
    assert images.resolve(removed.digest) is None
    assert not [part for part in verify(images, kept.digest) if part.fault]


def test_referrers_need_no_tag(embedded: str, connect: Any, model: Path) -> None:
    images = connect(embedded, "hub/model", LOGGED_IN)
    pushed = push_folder(model, images, ("v1",))
    images.write_blob(Blob(b"{}", digests.of(b"{}")))
    lineage = manifest_of(
        media.MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": media.MANIFEST,
            "artifactType": "application/vnd.example.lineage",
            "config": {"mediaType": media.EMPTY, "digest": digests.of(b"{}"), "size": 2},
            "layers": [],
            "subject": {"mediaType": media.INDEX, "digest": pushed.digest, "size": 1},
        },
    )
    images.write_manifest(lineage)
    assert [one.digest for one in images.referrers(pushed.digest)] == [lineage.digest]
    assert images.tags() == ["v1"]
