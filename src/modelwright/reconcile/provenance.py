"""What is known of how a version came to be, for the statement that is attached to its image."""

from __future__ import annotations

from collections.abc import Iterable

from modelwright.api.lineage import Lineage, SourceCode
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import Material, Provenance


def provenance(version: ModelVersion, parents: Iterable[ModelVersion]) -> Provenance | None:
    """None where the spec says nothing of it: then nothing is attached.

    `parents` are those that exist; one without an image yet is named, and has no digest.
    """
    spec, made = version.spec, version.spec.lineage or Lineage()
    if spec.lineage is None and not spec.created_by:
        return None
    known = {parent.metadata.name: parent for parent in parents}
    return Provenance(
        namespace=version.metadata.namespace,
        name=version.metadata.name,
        uid=version.metadata.uid,
        model_name=spec.model_name,
        created_by=spec.created_by,
        training_model=made.training_model,
        parents=tuple(_parent(name, known.get(name)) for name in made.parents),
        datasets=tuple(Material(name=each.name, uri=each.uri, digest=each.digest) for each in made.datasets),
        source=_source(made.source),
        parameters=made.parameters,
        metrics=made.metrics,
    )


def _parent(name: str, version: ModelVersion | None) -> Material:
    if version is None:
        return Material(name=name)
    return Material(name=name, uri=version.status.resolved_image, digest=version.status.image_digest)


def _source(source: SourceCode | None) -> Material | None:
    """Named by its revision."""
    return Material(name=source.revision, uri=source.repo) if source and (source.repo or source.revision) else None
