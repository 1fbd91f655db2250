"""How two versions of a model differ, by what the resources say.

These structs are the JSON of `modelwright diff -o json`: their names are promised in docs/lineage.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from modelwright.api.lineage import Lineage, SourceCode
from modelwright.api.model_version import ModelVersion
from modelwright.lineage import redaction
from modelwright.lineage.statement import COMMAND


class Version(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One of the two."""

    name: str
    model: str = ""
    image: str = ""
    resolved_image: str = ""
    digest: str = ""
    files: int = 0
    size_bytes: int = 0


class Change(
    msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}, omit_defaults=True, order=True, kw_only=True
):
    """A named text that differs; one that is not there is empty."""

    name: str
    before: str = ""
    after: str = ""


class Metric(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}, omit_defaults=True, kw_only=True):
    """A number of both or one of the two; the difference where both have it."""

    name: str
    before: float | None = None
    after: float | None = None
    difference: float | None = None


class File(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A file of an image. `layer` tells the content of a large one apart, whose own `digest` was not looked for."""

    path: str
    size_bytes: int
    digest: str = ""
    layer: str = ""


class ChangedFile(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}, kw_only=True):
    """One file in both images, with other content."""

    path: str
    before: File
    after: File


class Layers(msgspec.Struct, frozen=True, rename="camel"):
    """Layers that both images have, and bytes that only one of them has."""

    shared: int
    shared_bytes: int
    only_from: int
    only_from_bytes: int
    only_to: int
    only_to_bytes: int


class Files(msgspec.Struct, frozen=True):
    """What became of the files."""

    added: tuple[File, ...]
    removed: tuple[File, ...]
    changed: tuple[ChangedFile, ...]
    layers: Layers


class Difference(
    msgspec.Struct, frozen=True, rename={"before": "from", "after": "to", "api_version": "apiVersion"}, kw_only=True
):
    """`changes` are single fields, by name; `files` is null where `files_unknown` says why."""

    api_version: str = "modelwright.dev/v1alpha1"
    kind: str = "ModelVersionDiff"
    before: Version
    after: Version
    changes: tuple[Change, ...]
    metrics: tuple[Metric, ...]
    parameters: tuple[Change, ...]
    datasets: tuple[Change, ...]
    files: Files | None = None
    files_unknown: str = msgspec.field(default="", name="filesUnknown")


def difference(before: ModelVersion, after: ModelVersion) -> Difference:
    """All but the files, which only the images know."""
    old, new = (version.spec.lineage or Lineage() for version in (before, after))
    return Difference(
        before=_version(before),
        after=_version(after),
        changes=_changed(_fields(before, old), _fields(after, new)),
        metrics=_metrics(_measured(before, old), _measured(after, new)),
        parameters=_parameters(old.parameters, new.parameters),
        datasets=_changed(_datasets(old), _datasets(new)),
    )


def _version(version: ModelVersion) -> Version:
    status = version.status
    return Version(
        name=version.metadata.name,
        model=version.spec.model_name,
        image=status.image,
        resolved_image=status.resolved_image,
        digest=status.image_digest,
        files=status.file_count,
        size_bytes=status.size_bytes,
    )


def _fields(version: ModelVersion, made: Lineage) -> dict[str, str]:
    """Single fields by name, in the order in which they are shown."""
    source, by_training = made.source or SourceCode(), f"TrainingModel/{made.training_model}"
    return {
        "model": version.spec.model_name,
        "createdBy": "" if version.spec.created_by == by_training else version.spec.created_by,
        "trainingModel": made.training_model,
        "parents": ", ".join(sorted(made.parents)),
        "command": redaction.command(made.parameters.get(COMMAND, "")),
        "source": redaction.uri(source.repo),
        "revision": source.revision,
        "baseImage": version.spec.base_image,
    }


def _measured(version: ModelVersion, made: Lineage) -> dict[str, float]:
    """What was measured counts more than what was claimed."""
    return {**made.metrics, **version.status.metrics}


def _datasets(made: Lineage) -> dict[str, str]:
    return {each.name: each.digest or redaction.uri(each.uri) or "of unknown content" for each in made.datasets}


def _metrics(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[Metric, ...]:
    return tuple(_metric(name, before.get(name), after.get(name)) for name in sorted({*before, *after}))


def _metric(name: str, before: float | None, after: float | None) -> Metric:
    known = None if before is None or after is None else after - before
    return Metric(name=name, before=before, after=after, difference=known)


def _parameters(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """Those that differ, what sounds secret only named; the command stands among the fields."""
    names = sorted(name for name in {*before, *after} - {COMMAND} if before.get(name) != after.get(name))
    old, new = redaction.parameters(before), redaction.parameters(after)
    return tuple(Change(name=name, before=old.get(name, ""), after=new.get(name, "")) for name in names)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    names = dict.fromkeys((*before, *after))
    pairs = ((name, before.get(name, ""), after.get(name, "")) for name in names)
    return tuple(Change(name=name, before=old, after=new) for name, old, new in pairs if old != new)
