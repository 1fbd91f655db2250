"""Model: which of its versions is the latest, and how many there are."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from modelwright.api.model import LatestVersion, Model, ModelStatus
from modelwright.api.model_version import ModelVersion
from modelwright.reconcile import conditions, requests
from modelwright.reconcile.model_version import former_owner
from modelwright.reconcile.plan import Plan

LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Observed(msgspec.Struct, frozen=True):
    """The versions that name this Model."""

    versions: tuple[ModelVersion, ...]


def reconcile(model: Model, observed: Observed, now: datetime) -> Plan:
    """The status that follows from the versions; a Model runs nothing. One that is being deleted says no more."""
    if requests.suspended(model):
        return Plan(untouched=True)
    if model.metadata.deletion_timestamp is not None:
        return Plan()
    versions = tuple(version for version in observed.versions if stays_with(model, version))
    latest = latest_version(versions)
    wanted = conditions.ready("Tracking", summary(len(versions), latest))
    generation = model.metadata.generation
    status = ModelStatus(
        latest_version=latest,
        versions=len(versions),
        observed_generation=generation,
        last_handled_reconcile_at=requests.requested_at(model),
        conditions=conditions.settle(wanted, model.status.conditions, generation, now),
    )
    return Plan(status=status)


def stays_with(model: Model, version: ModelVersion) -> bool:
    """Whether the version is here to stay: not on its way out, by itself or with a former Model of this name."""
    former = former_owner(version)
    return version.metadata.deletion_timestamp is None and (former is None or former.uid == model.metadata.uid)


def latest_version(versions: tuple[ModelVersion, ...]) -> LatestVersion | None:
    """The version whose image was finished last, by name where two were finished at once; None before the first."""
    built = [version for version in versions if version.status.image_digest]
    if not built:
        return None
    newest = max(built, key=lambda version: (version.status.finish_time or LONG_AGO, version.metadata.name))
    return LatestVersion(
        model_version=newest.metadata.name,
        image_name=newest.status.image,
        image_digest=newest.status.image_digest,
    )


def summary(count: int, latest: LatestVersion | None) -> str:
    """One sentence for people."""
    counted = "1 version" if count == 1 else f"{count} versions"
    return f"{counted}, the latest is {latest.model_version}" if latest else f"{counted}, none has an image yet"
