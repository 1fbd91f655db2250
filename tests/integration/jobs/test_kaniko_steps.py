"""The agent's two steps around Kaniko, without it: what it pushes is put into the registry by hand."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from tests.integration.images.conftest import DockerRegistry
from tests.integration.jobs.support import UID, Agent, task

from modelwright.lineage import statement
from modelwright.oci import digests, media
from modelwright.oci.client import RegistryRepository, connect
from modelwright.oci.image import Blob, manifest_of
from modelwright.oci.reference import parse
from modelwright.oci.referrers import attached
from modelwright.ports.images import Descriptor, Manifest
from modelwright.ports.job import BuildTask

PUSHED = "sha256:" + "1" * 64


@pytest.fixture
def wanted(model: Path, docker_registry: DockerRegistry) -> BuildTask:
    repository = f"{docker_registry.host}/kaniko/{uuid.uuid4().hex[:12]}"
    return task(repository, model, builder="kaniko", destination=f"{repository}:v1")


def push_labelled(images: RegistryRepository, labels: dict[str, str], tag: str = "v1") -> str:
    """Put an image without layers there, as Kaniko writes its manifests; its digest."""
    content = {"architecture": "amd64", "os": "linux", "config": {"Labels": labels}, "rootfs": {"type": "layers"}}
    data = json.dumps(content).encode()
    config = Blob(data, digests.of(data))
    images.write_blob(config)
    manifest: Manifest = manifest_of(
        media.DOCKER_MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": media.DOCKER_MANIFEST,
            "config": Descriptor(media.DOCKER_CONFIG, config.digest, config.size),
            "layers": [],
        },
    )
    images.write_manifest(manifest, tag)
    return manifest.digest


def test_a_free_tag_is_prepared_for(agent: Agent, wanted: BuildTask) -> None:
    ran = agent.run("kaniko-prepare", wanted)
    assert (ran.code, ran.report, ran.errors) == (0, None, "")
    assert f'LABEL "modelwright.dev/model-version-uid"="{UID}"\n' in (agent.shared / "Dockerfile").read_text()
    assert (agent.shared / "Dockerfile.dockerignore").read_text() == ".modelwright\n.modelwright/**\n"


def test_it_counts_as_the_native_builder_does(agent: Agent, wanted: BuildTask, model: Path) -> None:
    agent.run("kaniko-prepare", wanted)
    prepared = json.loads((agent.shared / "prepared.json").read_bytes())
    native = agent.run("build", task(wanted.action.repository, model)).result
    assert prepared == {
        "files": native.files,
        "sizeBytes": native.size_bytes,
        "metrics": native.metrics,
        "metricsIgnored": "",
    }


def test_a_tag_with_other_content_is_refused(agent: Agent, wanted: BuildTask) -> None:
    with connect(parse(wanted.destination)) as images:
        push_labelled(images, {"modelwright.dev/model-version-uid": "another"})
    failure = agent.run("kaniko-prepare", wanted).failure
    assert (failure.reason, failure.retryable) == ("ImageTagTaken", False)
    assert "choose another imageTag" in failure.message
    assert not (agent.shared / "Dockerfile").exists()


def test_a_native_image_under_the_tag_is_other_content(agent: Agent, wanted: BuildTask, model: Path) -> None:
    assert agent.run("build", task(wanted.action.repository, model)).code == 0
    assert agent.run("kaniko-prepare", wanted).failure.reason == "ImageTagTaken"


def test_the_retry_of_a_build_knows_its_own_image(agent: Agent, wanted: BuildTask) -> None:
    with connect(parse(wanted.destination)) as images:
        push_labelled(images, {"modelwright.dev/model-version-uid": UID})
    ran = agent.run("kaniko-prepare", wanted)
    assert (ran.code, ran.report) == (0, None)
    assert "this build's own" in ran.lines[0]


def test_a_base_image_that_is_not_there_is_told_before_kaniko_starts(
    agent: Agent, wanted: BuildTask, model: Path
) -> None:
    base = f"{wanted.action.repository}-base:3"
    other = task(wanted.action.repository, model, base_image=base, destination=wanted.destination)
    failure = agent.run("kaniko-prepare", other).failure
    assert failure.reason == "ImageNotFound"
    assert base in failure.message


def test_what_kaniko_pushed_is_reported_with_its_lineage(agent: Agent, wanted: BuildTask) -> None:
    assert agent.run("kaniko-prepare", wanted).code == 0
    with connect(parse(wanted.destination)) as images:
        digest = push_labelled(images, {"modelwright.dev/model-version-uid": UID})
        (agent.shared / "digest").write_text(digest)
        result = agent.run("kaniko-finish", wanted).result
        stated = attached(images, digests.parse(digest), statement.MEDIA_TYPE, 1 << 20)
    assert (result.digest, result.tag, result.resolved) == (digest, "v1", f"{wanted.action.repository}@{digest}")
    assert (result.files, result.metrics) == (7, {"accuracy": 0.93})
    [document] = stated.documents
    builder = json.loads(document)["predicate"]["runDetails"]["builder"]["id"]
    assert builder == "https://modelwright.dev/builders/kaniko/v1"


def test_another_image_under_the_tag_is_not_reported_as_ours(agent: Agent, wanted: BuildTask) -> None:
    assert agent.run("kaniko-prepare", wanted).code == 0
    (agent.shared / "digest").write_text(PUSHED)
    assert agent.run("kaniko-finish", wanted).failure.reason == "BlobLost"
    with connect(parse(wanted.destination)) as images:
        push_labelled(images, {})
    failure = agent.run("kaniko-finish", wanted).failure
    assert (failure.reason, failure.retryable) == ("DigestMismatch", False)


@pytest.mark.parametrize("left", [None, b"", b"sha256:12", b"\xff" * 50])
def test_a_kaniko_that_left_no_digest_is_told(agent: Agent, wanted: BuildTask, left: bytes | None) -> None:
    assert agent.run("kaniko-prepare", wanted).code == 0
    if left is not None:
        (agent.shared / "digest").write_bytes(left)
    assert agent.run("kaniko-finish", wanted).failure.reason == "KanikoResultMissing"


def test_finishing_what_was_not_prepared_is_told(agent: Agent, wanted: BuildTask) -> None:
    (agent.shared / "digest").write_text(PUSHED)
    assert agent.run("kaniko-finish", wanted).failure.reason == "KanikoResultMissing"


@pytest.mark.parametrize("destination", ["", "hub/m:v1", "r.example.com/m", f"r.example.com/m:v1@{PUSHED}"])
def test_a_destination_without_host_or_tag_is_refused(agent: Agent, model: Path, destination: str) -> None:
    failure = agent.run("kaniko-prepare", task("r.example.com/m", model, destination=destination)).failure
    assert failure.reason in {"InvalidReference", "NoRegistry"}
