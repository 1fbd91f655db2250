"""Which version a spec wants served, and where it comes from."""

from __future__ import annotations

import msgspec

from modelwright.api.inference_model import InferenceModel, Source
from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import Download, ModelImage, ModelSource
from modelwright.reconcile import conditions


class Wanted(msgspec.Struct, frozen=True):
    """The version by name, its source, and how the history writes it down."""

    version: str
    source: ModelSource
    history_source: Source


def waiting_for(model: InferenceModel, version: ModelVersion | None) -> tuple[Condition, ...] | None:
    """The conditions while the ModelVersion that the spec names cannot be served; None if it can, or none is named."""
    name = model.spec.model_version
    if not name:
        return None
    if version is None:
        text = f"ModelVersion {name} does not exist in namespace {model.metadata.namespace}: create it, or name another"
        return conditions.reconciling("ModelVersionNotFound", text)
    if version.status.image_digest:
        return None
    if conditions.is_true(version.status.conditions, "Stalled"):
        text = f"ModelVersion {name} has no image: {version.status.message}"
        return conditions.stalled("ModelVersionStalled", text)
    return conditions.reconciling("ModelVersionNotReady", f"ModelVersion {name} has no image yet")


def wanted_source(model: InferenceModel, version: ModelVersion | None) -> Wanted:
    """What to serve, once `waiting_for` has nothing to wait for and the schema's rules hold."""
    if version is not None:
        name = version.metadata.name
        source = ModelImage(image=version.status.resolved_image, pull_secret=model.spec.pull_secret)
        return Wanted(name, source, Source(model_version=name))
    file = next(entry for entry in model.spec.manifest if entry.version == model.spec.target_version)
    download = Download(url=file.download_url, sha256sum=file.sha256sum, secret=model.spec.download_secret)
    return Wanted(file.version, download, Source(file=file))
