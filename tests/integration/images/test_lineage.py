"""Statements that builds attach to images, in real registries, and `modelwright lineage` that reads them there."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from modelwright.agent.build import LocalRegistry, build
from modelwright.cli import lineage
from modelwright.lineage.statement import MEDIA_TYPE, PREDICATE_ANNOTATION, PREDICATE_TYPE, statement
from modelwright.oci.prune import carry_out, plan
from modelwright.oci.referrers import Artifact, attach
from modelwright.ports.errors import Unavailable
from modelwright.ports.images import Digest
from modelwright.ports.worker import Built
from modelwright.ports.workloads import BuildImage, BuildResult, HostPath, Material, Provenance

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ACCEPT = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json"
Build = Callable[..., BuildResult]


def about(name: str, *parents: BuildResult, **more: Any) -> Provenance:
    named = tuple(Material(name=f"base-{at}", uri=each.resolved, digest=each.digest) for at, each in enumerate(parents))
    value = Provenance(namespace="default", name=name, uid=f"uid-{name}", model_name="digits", parents=named)
    return msgspec.structs.replace(value, **more)


@pytest.fixture
def build_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds a model of this content into a repository `HOST/NAME`, as the agent does."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker-config"))
    registry = LocalRegistry("127.0.0.1:1", tmp_path / "embedded")

    def make(repository: str, content: str, provenance: Provenance | None, tag: str = "") -> BuildResult:
        folder = tmp_path / f"model-{content}"
        (folder / ".modelwright").mkdir(parents=True, exist_ok=True)
        (folder / "model.txt").write_text(content)
        (folder / ".modelwright/metrics.json").write_text('{"accuracy": 0.9}')
        action = BuildImage(
            source=HostPath(str(folder)), repository=repository, tags=(tag or content,), provenance=provenance
        )
        built: Built = build(action, registry, forbidden=(), credentials=None, report=lambda _done, _total: None)
        return built.result

    return make


def get(url: str) -> Any:
    with OPENER.open(urllib.request.Request(url, headers={"Accept": ACCEPT}), timeout=30) as answer:
        return json.load(answer)


def told(*words: str, code: int = 0) -> str:
    app = typer.Typer()
    lineage.register(app)
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def graph(reference: str, *words: str) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Nodes by id, and edges."""
    document = json.loads(told(reference, "-o", "json", *words))
    assert (document["apiVersion"], document["kind"]) == ("modelwright.dev/v1alpha1", "Lineage")
    nodes = {node["id"]: node for node in document["nodes"]}
    return nodes, [(edge["from"], edge["role"], edge["to"]) for edge in document["edges"]]


def test_a_registry_without_referrers_lists_the_statement_under_the_fallback_tag(
    docker_registry: Any, build_into: Build, run_tool: Any
) -> None:
    repository = "lineage/fallback"
    built = build_into(f"{docker_registry.host}/{repository}", "a", about("v1", created_by="ann"))
    tag = built.digest.replace(":", "-")
    listed = json.loads(
        run_tool(
            "skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{docker_registry.host}/{repository}:{tag}"
        )
    )
    (entry,) = listed["manifests"]
    assert entry["artifactType"] == "application/vnd.in-toto+json"
    assert entry["annotations"] == {"in-toto.io/predicate-type": "https://slsa.dev/provenance/v1"}

    base = f"http://{docker_registry.host}/v2/{repository}"
    manifest = get(f"{base}/manifests/{entry['digest']}")
    assert manifest["subject"]["digest"] == built.digest
    (layer,) = manifest["layers"]
    document = get(f"{base}/blobs/{layer['digest']}")
    assert document["subject"] == [
        {"name": f"{docker_registry.host}/{repository}", "digest": {"sha256": built.digest.removeprefix("sha256:")}}
    ]
    assert document["predicate"]["buildDefinition"]["externalParameters"]["createdBy"] == "ann"


def test_building_again_attaches_nothing_new(docker_registry: Any, build_into: Build, connect: Any) -> None:
    repository = f"{docker_registry.host}/lineage/again"
    first = build_into(repository, "a", about("v1"))
    images = connect(docker_registry.host, "lineage/again")
    before = images.referrers(first.digest)
    assert len(before) == 1
    assert build_into(repository, "a", about("v1")) == first
    assert images.referrers(first.digest) == before
    build_into(repository, "a", about("v2"))
    assert len(images.referrers(first.digest)) == 2


def test_without_provenance_nothing_is_attached(docker_registry: Any, build_into: Build, connect: Any) -> None:
    built = build_into(f"{docker_registry.host}/lineage/none", "a", None)
    images = connect(docker_registry.host, "lineage/none")
    assert images.referrers(built.digest) == []
    assert images.tags() == ["a"]
    text = told(built.resolved)
    assert "no provenance is attached" in text
    assert "Made from" not in text


def test_the_way_back_is_read_from_the_registry_alone(docker_registry: Any, build_into: Build) -> None:
    host = docker_registry.host
    data = Material(name="digits", uri="https://data.test/digits.csv", digest=f"sha256:{'ef' * 32}")
    first = build_into(f"{host}/lineage/base", "first", about("v1", datasets=(data,), training_model="train-1"))
    second = build_into(
        f"{host}/lineage/chain", "second", about("v2", first, source=Material(name="main", uri="git@c:x"))
    )
    third = build_into(
        f"{host}/lineage/chain", "third", about("v3", second, parameters={"command": "python x", "lr": "1"})
    )

    text = told(f"{host}/lineage/chain:third")
    assert text.splitlines()[0].startswith(f"image/{host}/lineage/chain@{third.digest[:19]}")
    order = [
        text.index(word)
        for word in ("modelversion/v3", "modelversion/v2", "modelversion/v1", "train-1", "dataset/digits")
    ]
    assert order == sorted(order)
    assert "accuracy 0.9" in text
    assert "command python x" in text

    nodes, edges = graph(third.resolved)
    assert nodes[f"image/{second.resolved}"]["digest"] == second.digest
    (v3,) = (node for node in nodes.values() if node["name"] == "v3")
    assert (v3["uid"], v3["parameters"], v3["metrics"]) == ("uid-v3", {"lr": "1"}, {"accuracy": 0.9})
    assert (f"image/{second.resolved}", "base", v3["id"]) in edges
    assert (v3["id"], "packed", f"image/{third.resolved}") in edges
    assert any(role == "dataset" and target.startswith("trainingmodel/train-1@") for _, role, target in edges)

    shallow, _ = graph(third.resolved, "--depth", "1")
    assert shallow[f"image/{first.resolved}"]["notes"] == ["not followed"]
    assert "cut" in json.loads(told(third.resolved, "-o", "json", "--depth", "1"))


def test_a_base_is_found_under_todays_address_and_in_the_repository_that_was_asked(
    docker_registry: Any, build_into: Build
) -> None:
    """Registries move, and images are copied: the digest stays."""
    host = docker_registry.host
    base = build_into(f"{host}/lineage/moved", "base", about("v1"))
    elsewhere = msgspec.structs.replace(base, resolved=f"registry.test/other/place@{base.digest}")
    former = msgspec.structs.replace(base, resolved=f"127.0.0.1:1/lineage/moved@{base.digest}")
    for name, parent in (("elsewhere", elsewhere), ("former", former)):
        made = build_into(f"{host}/lineage/moved", name, about(name, parent))
        nodes, _ = graph(made.resolved)
        assert not any(node.get("missing") for node in nodes.values())
        assert "v1" in {node["name"] for node in nodes.values()}


def test_a_base_that_is_not_in_the_registry_is_named_and_no_other_host_is_asked(
    docker_registry: Any, scripted: Any, build_into: Build
) -> None:
    other = BuildResult(
        digest=f"sha256:{'cd' * 32}", tag="", resolved=f"{scripted.host}/x/y@sha256:{'cd' * 32}", size_bytes=1
    )
    made = build_into(f"{docker_registry.host}/lineage/gone", "a", about("v2", other, parents=()))
    nameless = Material(name="never-built")
    made = build_into(
        f"{docker_registry.host}/lineage/gone",
        "b",
        about("v2", parents=(Material(name="v1", uri=other.resolved, digest=other.digest), nameless)),
    )
    nodes, _ = graph(made.resolved)
    missing = {node["name"]: node for node in nodes.values() if node.get("missing")}
    assert missing.keys() == {f"{scripted.host}/x/y", "never-built"}
    assert scripted.seen == []


def test_statements_that_go_in_a_circle_end(docker_registry: Any, build_into: Build, connect: Any) -> None:
    host = docker_registry.host
    one, two = (build_into(f"{host}/lineage/circle", content, None) for content in ("one", "two"))
    images = connect(host, "lineage/circle")
    for made, base in ((one, two), (two, one), (two, two)):
        document = statement(about("v", base), images.name, made.digest, {})
        attach(images, Digest(made.digest), Artifact(MEDIA_TYPE, document, {PREDICATE_ANNOTATION: PREDICATE_TYPE}))
    nodes, edges = graph(one.resolved)
    assert len([node for node in nodes.values() if node["kind"] == "Image"]) == 2
    assert len(edges) == 6
    assert "(above)" in told(one.resolved)


def test_all_statements_are_shown_and_what_is_none_is_told(
    docker_registry: Any, build_into: Build, connect: Any
) -> None:
    repository = f"{docker_registry.host}/lineage/many"
    made = build_into(repository, "a", about("mine", created_by="ann"))
    build_into(repository, "a", about("yours", created_by="bob"))
    images = connect(docker_registry.host, "lineage/many")
    other = f"sha256:{'cd' * 32}"
    hostile = "\x1b[2J\u202e"
    foreign = json.loads(statement(about("x"), images.name, made.digest, {}))
    foreign["predicate"]["buildDefinition"] = {"buildType": "https://ci.test/v1", "resolvedDependencies": []}
    foreign["predicate"]["runDetails"]["builder"]["id"] = f"https://ci.test/{hostile}"
    for artifact in (
        Artifact(MEDIA_TYPE, statement(about("stolen"), images.name, other, {})),
        Artifact(MEDIA_TYPE, b"no json"),
        Artifact(MEDIA_TYPE, json.dumps(foreign).encode()),
        Artifact(MEDIA_TYPE, json.dumps({**foreign, "predicateType": "https://spdx.dev/Document"}).encode()),
        Artifact("application/vnd.example.signature", b"signed"),
    ):
        attach(images, Digest(made.digest), artifact)
    text = told(made.resolved)
    assert "modelversion/mine" in text
    assert "modelversion/yours" in text
    assert "stolen" not in text
    assert "2 other artifacts attached" in text
    assert "not about" in text
    assert "cannot be read" in text
    assert "\x1b" not in text
    assert "built by https://ci.test/\\x1b[2J\\u202e" in text
    assert "\x1b" not in told(made.resolved, "-o", "json") + told(made.resolved, "-o", "dot")


def test_pruning_takes_statements_with_their_images_and_leaves_the_others(
    docker_registry: Any, build_into: Build, connect: Any
) -> None:
    repository = f"{docker_registry.host}/lineage/pruned"
    kept, gone = build_into(repository, "kept", about("v1")), build_into(repository, "gone", about("v2"))
    images = connect(docker_registry.host, "lineage/pruned")
    (statement_of_gone,) = images.referrers(gone.digest)
    attach(images, statement_of_gone.digest, Artifact("application/vnd.example.signature", b"signed"))
    carry_out(images, plan(images, ("kept",)))
    assert images.resolve(gone.digest) is None
    assert images.resolve(statement_of_gone.digest) is None
    assert images.referrers(gone.digest) == images.referrers(statement_of_gone.digest) == []
    assert images.tags() == sorted(["kept", kept.digest.replace(":", "-")])
    assert "modelversion/v1" in told(kept.resolved)


@pytest.mark.parametrize(("status", "code"), [(400, "MANIFEST_INVALID"), (403, "DENIED"), (415, "UNSUPPORTED")])
def test_a_registry_that_refuses_statements_has_the_image_all_the_same(
    scripted: Any, faults: Any, build_into: Build, status: int, code: str
) -> None:
    body = json.dumps({"errors": [{"code": code, "message": "no artifacts here"}]}).encode()
    referrer = r"/manifests/sha256:"
    scripted.on("PUT", referrer, faults.done_but(201), times=3)  # the three platforms
    scripted.on("PUT", referrer, faults.status(status, body))
    built = build_into(f"{scripted.host}/hub/m", "a", about("v1"))
    assert scripted.tags["hub/m", "a"] == built.digest
    assert "is pushed, and its lineage could not be attached" in built.provenance_refused


def test_a_statement_that_does_not_get_through_fails_the_build_retryably_and_the_image_stays(
    scripted: Any, faults: Any, build_into: Build
) -> None:
    provenance = about("v1")
    first = build_into(f"{scripted.host}/hub/m", "a", None)
    referrer = r"/manifests/sha256:"
    scripted.on("PUT", referrer, faults.done_but(201), times=3)  # the three platforms
    scripted.on("PUT", referrer, faults.status(503, b"{}"), times=100)
    with pytest.raises(Unavailable) as caught:
        build_into(f"{scripted.host}/hub/m", "a", provenance)
    assert (caught.value.reason, caught.value.retryable) == ("ProvenanceNotAttached", True)
    assert "is pushed, and its lineage could not be attached" in caught.value.message
    assert scripted.tags["hub/m", "a"] == first.digest
    scripted.mend()
    assert build_into(f"{scripted.host}/hub/m", "a", provenance) == first
    assert ("hub/m", first.digest.replace(":", "-")) in scripted.tags


def test_the_local_storage_has_the_statement_as_any_registry(build_into: Build, tmp_path: Path) -> None:
    from modelwright.oci.local import LocalRepository
    from modelwright.oci.storage import ImageStorage

    built = build_into("hub/m", "a", about("v1"))
    images = LocalRepository(ImageStorage(tmp_path / "embedded"), "hub/m")
    (found,) = images.referrers(Digest(built.digest))
    assert found.artifact_type == MEDIA_TYPE
    assert built.files == 1


@pytest.mark.parametrize("word", ["127.0.0.1:1/x/y:v1", "127.0.0.1:1/x/y@sha256:12", "127.0.0.1:1/X:v1"])
def test_a_registry_that_is_not_there_or_a_name_that_is_none_is_told(word: str, build_into: Build) -> None:
    assert told(word, code=1).startswith("error: ")
