"""Rollback: which source to go back to, and how the spec says it."""

from __future__ import annotations

from typing import Any

from modelwright.api.inference_model import HistoryEntry, InferenceModel, InferenceModelFile, Source


def source_of(model: InferenceModel) -> Source:
    """The source that the spec asks for, as the history writes it down."""
    spec = model.spec
    if spec.image:
        return Source(image=spec.image)
    if spec.model_version:
        return Source(model_version=spec.model_version)
    return Source(file=next((entry for entry in spec.manifest if entry.version == spec.target_version), None))


def name_of(source: Source) -> str:
    """What a person calls a source: the version, or the image."""
    return source.image or source.model_version or (source.file.version if source.file else "")


def former_source(model: InferenceModel, version: str = "") -> Source | None:
    """The source to go back to: the newest in the history that is not the spec's own, or of this version."""
    current = source_of(model)
    candidates = [entry for entry in reversed(model.status.history) if entry.source != current]
    return next((entry.source for entry in candidates if matches(entry, version)), None)


def matches(entry: HistoryEntry, version: str) -> bool:
    return not version or name_of(entry.source) == version


def spec_patch(model: InferenceModel, source: Source) -> dict[str, Any]:
    """The merge patch of the spec that asks for this source again; a null takes a field away."""
    if source.image:
        return {"image": source.image}
    if source.model_version:
        return {"image": None, "modelVersion": source.model_version}
    if source.file is None:
        return {}
    patch: dict[str, Any] = {"image": None, "modelVersion": None, "targetVersion": source.file.version}
    if source.file not in model.spec.manifest:
        others = [entry for entry in model.spec.manifest if entry.version != source.file.version]
        patch["manifest"] = [as_json(entry) for entry in (*others, source.file)]
    return patch


def as_json(entry: InferenceModelFile) -> dict[str, str]:
    """An entry of the manifest under its own field names."""
    written = {"version": entry.version, "downloadURL": entry.download_url, "sha256sum": entry.sha256sum}
    return {name: value for name, value in written.items() if value}
