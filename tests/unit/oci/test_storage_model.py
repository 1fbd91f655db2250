"""The storage against a model of it: whatever is done in whatever order, both say the same."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from modelwright.oci import digests, media
from modelwright.oci.garbage import collect_garbage
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import AlreadyExists, NotFound, Rejected
from modelwright.ports.images import Digest, Manifest

NAMES = ("a", "a/b", "c")
BLOBS = (b"", b"1", b"22" * 1000, b"{}")
TAGS = ("v1", "v2", "V1x")
names, blobs, tags = st.sampled_from(NAMES), st.sampled_from(BLOBS), st.sampled_from(TAGS)


def manifest_of(*parts: bytes) -> Manifest:
    listed = [{"mediaType": media.LAYER, "digest": digests.of(part), "size": len(part)} for part in parts]
    data = json.dumps({"schemaVersion": 2, "config": listed[0], "layers": listed[1:]}).encode()
    return Manifest(media.MANIFEST, digests.of(data), data)


class Model:
    """One repository, as three dicts."""

    def __init__(self) -> None:
        self.blobs: set[bytes] = set()
        self.manifests: dict[Digest, tuple[bytes, ...]] = {}
        self.tags: dict[str, Digest] = {}

    def needed(self) -> set[bytes]:
        return {part for parts in self.manifests.values() for part in parts}


class StorageMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.storage = ImageStorage(self.root / "images")
        self.model = {name: Model() for name in NAMES}

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(name=names, blob=blobs)
    def push_blob(self, name: str, blob: bytes) -> None:
        with self.storage.staging.new() as staged:
            staged.append([blob[:1], blob[1:]])
            self.storage.repository(name).add_blobs([(staged, staged.digest())])
        self.model[name].blobs.add(blob)

    @rule(source=names, into=names, blob=blobs)
    def mount(self, source: str, into: str, blob: bytes) -> None:
        done = self.storage.repository(into).adopt_blob(digests.of(blob), self.storage.repository(source))
        assert done == (blob in self.model[source].blobs)
        if done:
            self.model[into].blobs.add(blob)

    @rule(name=names, parts=st.lists(blobs, min_size=1, max_size=2), tag=st.none() | tags, move=st.booleans())
    def push_manifest(self, name: str, parts: list[bytes], tag: str | None, *, move: bool) -> None:
        model, manifest = self.model[name], manifest_of(*parts)
        taken = tag is not None and model.tags.get(tag, manifest.digest) != manifest.digest
        try:
            self.storage.repository(name).put_manifest(manifest, tag, move=move)
        except NotFound:
            assert not set(parts) <= model.blobs
            return
        except AlreadyExists:
            assert taken
            assert not move
            tag = None
        else:
            assert not taken or move
        assert set(parts) <= model.blobs
        model.manifests[manifest.digest] = tuple(parts)
        if tag is not None:
            model.tags[tag] = manifest.digest

    @rule(name=names, tag=tags)
    def delete_tag(self, name: str, tag: str) -> None:
        try:
            self.storage.repository(name).delete_tag(tag)
        except NotFound:
            assert tag not in self.model[name].tags
        else:
            del self.model[name].tags[tag]

    @rule(name=names, parts=st.lists(blobs, min_size=1, max_size=2))
    def delete_manifest(self, name: str, parts: list[bytes]) -> None:
        model, digest = self.model[name], manifest_of(*parts).digest
        try:
            self.storage.repository(name).delete_manifest(digest)
        except NotFound:
            assert digest not in model.manifests
        else:
            del model.manifests[digest]
            model.tags = {tag: named for tag, named in model.tags.items() if named != digest}

    @rule(name=names, blob=blobs)
    def delete_blob(self, name: str, blob: bytes) -> None:
        model = self.model[name]
        try:
            self.storage.repository(name).delete_blob(digests.of(blob))
        except NotFound:
            assert blob not in model.blobs
        except Rejected:
            assert blob in model.needed()
        else:
            model.blobs.remove(blob)

    @rule(untagged=st.booleans())
    def collect(self, *, untagged: bool) -> None:
        collect_garbage(self.storage, 0, untagged=untagged)
        for model in self.model.values():
            if untagged:
                named = set(model.tags.values())
                model.manifests = {digest: parts for digest, parts in model.manifests.items() if digest in named}
            model.blobs &= model.needed()

    @rule()
    def restart(self) -> None:
        self.storage = ImageStorage(self.root / "images")

    @invariant()
    def both_say_the_same(self) -> None:
        for name, model in self.model.items():
            repository = self.storage.repository(name)
            assert repository.tags() == sorted(model.tags)
            assert repository.digests() == sorted(model.manifests)
            assert {tag: repository.read_manifest(tag).digest for tag in model.tags} == model.tags
            for blob in BLOBS:
                assert repository.has_blob(digests.of(blob)) == (blob in model.blobs)
            for blob in model.blobs:
                with os.fdopen(repository.open_blob(digests.of(blob)), "rb") as file:
                    assert file.read() == blob
        assert self.storage.repositories() == sorted(name for name, model in self.model.items() if model.manifests)
        assert list(self.storage.staging.folder.iterdir()) == []


TestStorage = StorageMachine.TestCase
TestStorage.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
