"""Which version a spec wants served, and where it comes from."""

from __future__ import annotations

import msgspec

from modelwright.api.inference_model import InferenceModel, ResolvedVersion, Source
from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import Container, Download, ModelImage, ModelSource
from modelwright.reconcile import conditions


class Wanted(msgspec.Struct, frozen=True):
    """The version by name (a serving image has none), its source, and how the history writes it down."""

    version: str
    source: ModelSource | Container
    history_source: Source
    resolved: ResolvedVersion | None = None
    """What a ModelVersion is taken to be."""


def waiting_for(model: InferenceModel, version: ModelVersion | None) -> tuple[Condition, ...] | None:
    """The conditions while the ModelVersion that the spec names cannot be served; None if it can, or none is named."""
    name = model.spec.model_version
    if not name or model.spec.image:
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
    spec = model.spec
    if spec.image:
        return Wanted("", Container(image=spec.image, pull_secret=spec.pull_secret), Source(image=spec.image))
    if version is not None:
        image = version.status.resolved_image
        return of_version(model, ResolvedVersion(model_version=version.metadata.name, image=image))
    file = next(entry for entry in spec.manifest if entry.version == spec.target_version)
    download = Download(url=file.download_url, sha256sum=file.sha256sum, secret=spec.download_secret)
    return Wanted(file.version, download, Source(file=file))


def version_as_it_was(model: InferenceModel) -> Wanted | None:
    """The ModelVersion that the spec names as it was served last, whether it still exists or not; None if it was not.

    It is an image by digest: what it was is what it is.
    """
    known = model.status.resolved
    if known is None or known.model_version != model.spec.model_version:
        return None
    return of_version(model, known)


def of_version(model: InferenceModel, resolved: ResolvedVersion) -> Wanted:
    source = ModelImage(image=resolved.image, pull_secret=model.spec.pull_secret)
    return Wanted(resolved.model_version, source, Source(model_version=resolved.model_version), resolved)
