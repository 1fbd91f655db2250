"""A Kaniko build with the real executor, between the agent's two steps, into a real registry."""

from __future__ import annotations

import gzip
import io
import tarfile
import uuid
from pathlib import Path

import pytest
from tests.integration.images.conftest import PASSWORD, USER, DockerRegistry
from tests.integration.jobs.chroot import Kaniko
from tests.integration.jobs.support import UID, Agent, docker_config, task

from modelwright.oci import digests, manifests
from modelwright.oci.client import RegistryRepository, connect
from modelwright.oci.credentials import Credentials
from modelwright.oci.reference import parse
from modelwright.oci.session import Options
from modelwright.ports.job import BUILD_FOLDER, SHARED_FOLDER, BuildTask

DOCKER_FOLDER = "/kaniko/.docker"
CA_FOLDER = "/kaniko/registry-ca"
LABEL = "modelwright.dev/model-version-uid"


def arguments(wanted: BuildTask) -> list[str]:
    """The executor's arguments in a Job."""
    return [
        f"--context=dir://{BUILD_FOLDER}",
        f"--dockerfile={SHARED_FOLDER}/Dockerfile",
        f"--destination={wanted.destination}",
        f"--digest-file={SHARED_FOLDER}/digest",
        f"--label={LABEL}={UID}",
        *(f"--insecure-registry={host}" for host in wanted.plain_http),
    ]


def build(agent: Agent, kaniko: Kaniko, wanted: BuildTask) -> str:
    """All three steps; the digest."""
    variables = {"DOCKER_CONFIG": DOCKER_FOLDER, "SSL_CERT_DIR": CA_FOLDER}
    prepared = agent.run("kaniko-prepare", wanted)
    assert prepared.code == 0, prepared
    kaniko.run(Path(wanted.folder), agent.shared, arguments(wanted), variables)
    return agent.run("kaniko-finish", wanted).result.digest


def layers_of(images: RegistryRepository, digest: str) -> list[list[tarfile.TarInfo]]:
    """The entries of each layer."""
    content = manifests.decode(images.read_manifest(digest))
    assert isinstance(content, manifests.ImageManifest)
    found = []
    for layer in content.layers:
        with images.read_blob(layer.digest) as chunks:
            data = b"".join(digests.verified(chunks, layer.digest, layer.size, what="the layer"))
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
            found.append(tar.getmembers())
    return found


def config_of(images: RegistryRepository, digest: str) -> manifests.ImageConfig:
    content = manifests.decode(images.read_manifest(digest))
    assert isinstance(content, manifests.ImageManifest)
    with images.read_blob(content.config.digest) as chunks:
        return manifests.decode_config(b"".join(chunks))


@pytest.fixture
def wanted(model: Path, docker_registry: DockerRegistry) -> BuildTask:
    repository = f"{docker_registry.host}/kaniko/{uuid.uuid4().hex[:12]}"
    host = docker_registry.host
    return task(repository, model, builder="kaniko", destination=f"{repository}:v1", plain_http=(host,))


def test_the_image_has_the_model_and_nothing_else(agent: Agent, kaniko: Kaniko, wanted: BuildTask) -> None:
    """A .dockerignore that hides all, a Dockerfile that fails, and odd names are files like any other."""
    digest = build(agent, kaniko, wanted)
    with connect(parse(wanted.destination)) as images:
        [layer] = layers_of(images, digest)
        config = config_of(images, digest)
    model = Path(wanted.folder)
    private = model / ".modelwright"
    files = {path for path in model.rglob("*") if path.is_file() and not path.is_relative_to(private)}
    assert {entry.name for entry in layer if entry.isfile()} == {
        f"kubedl-model/{path.relative_to(model)}" for path in files
    }
    assert "kubedl-model/empty" in {entry.name for entry in layer if entry.isdir()}
    assert config.environment["KUBEDL_MODEL_PATH"] == "/kubedl-model"
    assert (config.config or {})["Labels"] == {LABEL: UID}


def test_everybody_may_read_the_files_whoever_owned_them(agent: Agent, kaniko: Kaniko, wanted: BuildTask) -> None:
    (Path(wanted.folder) / "a folder").chmod(0o700)
    digest = build(agent, kaniko, wanted)
    with connect(parse(wanted.destination)) as images:
        [layer] = layers_of(images, digest)
    inside = [entry for entry in layer if entry.name.startswith("kubedl-model")]
    assert {(entry.uid, entry.gid, entry.mode & 0o7777) for entry in inside} == {(0, 0, 0o755)}


def test_the_folder_of_the_user_is_left_as_it_was(agent: Agent, kaniko: Kaniko, wanted: BuildTask) -> None:
    def seen() -> dict[str, tuple[int, int, int, float]]:
        found = sorted(Path(wanted.folder).rglob("*"))
        return {str(path): (at.st_mode, at.st_uid, at.st_size, at.st_mtime) for path in found for at in [path.lstat()]}

    before = seen()
    build(agent, kaniko, wanted)
    assert seen() == before


def test_a_retry_pushes_over_its_own_image_and_nobody_elses(
    agent: Agent, kaniko: Kaniko, wanted: BuildTask, tmp_path: Path
) -> None:
    first = build(agent, kaniko, wanted)
    again = build(agent, kaniko, wanted)
    with connect(parse(wanted.destination)) as images:
        found = images.resolve("v1")
    assert found is not None and found.digest == again
    assert again.startswith("sha256:") and first.startswith("sha256:")
    provenance = wanted.action.provenance
    assert provenance is not None
    other = task(
        wanted.action.repository,
        Path(wanted.folder),
        destination=wanted.destination,
        provenance=type(provenance)(namespace="vision", name="other", uid="other", model_name="resnet"),
    )
    assert agent.run("kaniko-prepare", other).failure.reason == "ImageTagTaken"


def test_a_locked_registry_takes_it_with_the_secret_and_its_ca(
    agent: Agent, kaniko: Kaniko, model: Path, locked_registry: DockerRegistry, tmp_path: Path
) -> None:
    assert locked_registry.ca_file is not None
    secret = docker_config(tmp_path / "secret", locked_registry.host, USER, PASSWORD)
    (secret / "ca.crt").write_bytes(locked_registry.ca_file.read_bytes())
    kaniko.put(f"{DOCKER_FOLDER}/config.json", (secret / ".dockerconfigjson").read_bytes())
    kaniko.put(f"{CA_FOLDER}/ca.crt", (secret / "ca.crt").read_bytes())
    repository = f"{locked_registry.host}/kaniko/{uuid.uuid4().hex[:12]}"
    wanted = task(
        repository, model, builder="kaniko", destination=f"{repository}:v1", push_secret="regcred", secret=str(secret)
    )
    digest = build(agent, kaniko, wanted)
    options = Options(ca_file=locked_registry.ca_file, credentials=Credentials(USER, PASSWORD))
    with connect(parse(repository), options) as images:
        found = images.resolve("v1")
    assert found is not None and found.digest == digest


def test_a_base_image_is_below_the_model(agent: Agent, kaniko: Kaniko, wanted: BuildTask, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "tool").write_text("#!/bin/sh\n")
    name = f"{wanted.action.repository}-base"
    assert agent.run("build", task(name, base)).code == 0
    upon = task(
        wanted.action.repository,
        Path(wanted.folder),
        builder="kaniko",
        destination=wanted.destination,
        plain_http=wanted.plain_http,
        base_image=f"{name}:v1",
    )
    digest = build(agent, kaniko, upon)
    with connect(parse(wanted.destination)) as images:
        content = manifests.decode(images.read_manifest(digest))
        assert isinstance(content, manifests.ImageManifest)
        config = config_of(images, digest)
    assert len(content.layers) == 2
    assert config.environment["KUBEDL_MODEL_PATH"] == "/kubedl-model"
