"""What a node says of its thing."""

from __future__ import annotations

import shlex
from typing import Any

from modelwright.lineage import redaction
from modelwright.lineage.datasets import Dataset
from modelwright.lineage.nodes import Node, Source
from modelwright.lineage.records import (
    Joint,
    Served,
    ServedFile,
    Training,
    TrainingStatus,
    Version,
    VersionStatus,
    detail,
    state,
)

SOURCE = "org.opencontainers.image.source"
REVISION = "org.opencontainers.image.revision"
COMMAND = "command"


def version_node(id_: str, version: Version) -> Node:
    """Of a ModelVersion: what was measured counts more than what was claimed."""
    spec, status = version.spec, detail(version.status, VersionStatus)
    made = spec.lineage
    claimed = detail(made.metrics, dict[str, float]) if made else {}
    parameters = detail(made.parameters, dict[str, str]) if made else {}
    command = parameters.pop(COMMAND, "")
    return Node(
        id=id_,
        kind="ModelVersion",
        name=version.metadata.name,
        status=state(status.conditions) or "Pending",
        model=spec.model_name,
        created_by=spec.created_by,
        image=status.image,
        digest=status.image_digest,
        base_image=spec.base_image,
        files=status.file_count,
        size_bytes=status.size_bytes,
        metrics=dict(sorted({**claimed, **detail(status.metrics, dict[str, float])}.items())),
        command=redaction.command(command),
        parameters=redaction.parameters(parameters),
        source=_source(detail(made.source, dict[str, str])) if made else None,
    )


def training_node(id_: str, training: Training) -> Node:
    """Of a TrainingModel."""
    spec = training.spec
    words = [*detail(spec.command, list[str]), *detail(spec.args, list[str])]
    variables = detail(spec.env, list[dict[str, Any]])
    environment = {str(each.get("name")): str(each.get("value") or "") for each in variables}
    annotations = detail(training.metadata.annotations, dict[str, str])
    return Node(
        id=id_,
        kind="TrainingModel",
        name=training.metadata.name,
        status=detail(training.status, TrainingStatus).phase or "Pending",
        model=spec.model_name,
        image=spec.image,
        command=redaction.command(shlex.join(words)),
        parameters=redaction.parameters(environment),
        workers=spec.workers if spec.workers > 1 else 0,
        framework=spec.framework_type,
        source=_source({"repo": annotations.get(SOURCE, ""), "revision": annotations.get(REVISION, "")}),
    )


def served_node(id_: str, served: Served) -> Node:
    """Of an InferenceModel."""
    spec, status = served.spec, served.status
    return Node(
        id=id_,
        kind="InferenceModel",
        name=served.metadata.name,
        status=state(status.conditions) or "Pending",
        model=spec.model_name,
        layer=spec.deploy_to_layer,
        framework=spec.framework_type,
        serving_version=status.serving_version,
        url=status.url,
    )


def joint_node(id_: str, joint: Joint) -> Node:
    """Of a JointInferenceService."""
    return Node(
        id=id_,
        kind="JointInferenceService",
        name=joint.metadata.name,
        status=state(joint.status.conditions) or "Pending",
        policy=joint.spec.hard_example_mining.policy,
        url=joint.status.url,
    )


def dataset_node(id_: str, dataset: Dataset) -> Node:
    """Of a data set; other names that it goes by are noted."""
    others = sorted(dataset.names - {dataset.name})
    return Node(
        id=id_,
        kind="Dataset",
        name=dataset.name,
        digest=dataset.digest,
        uris=tuple(sorted({redaction.uri(uri) for uri in dataset.uris})),
        notes=(f"also called {', '.join(others)}",) if others else (),
    )


def file_node(id_: str, file: ServedFile) -> Node:
    """Of a file that a manifest offers for download."""
    return Node(
        id=id_,
        kind="File",
        name=file.version,
        digest=f"sha256:{file.sha256sum.lower()}" if file.sha256sum else "",
        uris=(redaction.uri(file.download_url),),
    )


def _source(said: dict[str, str]) -> Source | None:
    repo, revision = redaction.uri(said.get("repo", "")), said.get("revision", "")
    return Source(repo, revision) if repo or revision else None
