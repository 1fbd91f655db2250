"""Trainings that write to the same place: one after the other, each until its version has its image.

Else the files of one would be packed as the result of the other, and the lineage would be wrong.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from modelwright.api.meta import Condition
from modelwright.api.training_model import TrainingModel
from modelwright.reconcile import conditions, requests
from modelwright.reconcile.names import short_hash
from modelwright.reconcile.storage import storage_source

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_WAITS_FOR_ITS_TURN = {"", "TrainingPending"}


def place_of(training: TrainingModel) -> str:
    """What tells one place from another, whatever node or mount path is named beside."""
    source = storage_source(training.spec.storage)
    namespace = training.metadata.namespace if training.spec.storage.persistent_volume_claim is not None else ""
    if training.spec.storage.local_storage is not None:
        source = msgspec.structs.replace(source, path=training.spec.storage.local_storage.path.rstrip("/"))
    return short_hash(source, namespace)


def in_use_by(training: TrainingModel, rivals: tuple[TrainingModel, ...]) -> tuple[Condition, ...] | None:
    """The conditions while another training has the place; None if it is free.

    What has begun waits only for what began before it, so that no two ever wait for each other.
    """
    first = next((rival for rival in sorted(rivals, key=order) if goes_first(rival, training)), None)
    if first is None:
        return None
    name = f"{first.metadata.namespace}/{first.metadata.name}"
    text = (
        f"the storage is that of TrainingModel {name} too, whose version has no image yet: this training begins "
        "when that has one, or has failed for good; storage of its own lets it begin at once"
    )
    return conditions.reconciling("StorageInUse", text)


def goes_first(rival: TrainingModel, training: TrainingModel) -> bool:
    if is_settled(rival):
        return False
    if has_begun(training):
        return has_begun(rival) and order(rival) < order(training)
    return has_begun(rival) or (is_next(rival) and order(rival) < order(training))


def is_settled(training: TrainingModel) -> bool:
    """Whether nothing more is written by it or packed from there, unless somebody acts."""
    told = training.status.conditions
    return conditions.is_true(told, "Ready") or conditions.is_true(told, "Stalled")


def has_begun(training: TrainingModel) -> bool:
    return training.status.attempts > 0


def is_next(training: TrainingModel) -> bool:
    """Whether nothing else keeps it from beginning."""
    ready = conditions.find(training.status.conditions, "Ready")
    return not requests.suspended(training) and (ready.reason if ready is not None else "") in _WAITS_FOR_ITS_TURN


def order(training: TrainingModel) -> tuple[datetime, str]:
    """The same for everybody: the older first."""
    return (training.metadata.creation_timestamp or _LONG_AGO, training.metadata.uid)
