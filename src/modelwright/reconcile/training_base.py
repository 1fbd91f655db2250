"""The ModelVersion that a training starts from."""

from __future__ import annotations

from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.reconcile import conditions


def waiting_for(training: TrainingModel, base: ModelVersion | None) -> tuple[Condition, ...] | None:
    """The conditions while the base version has no image; None if it has, or none is named."""
    name = training.spec.base_model_version
    if not name:
        return None
    if base is None:
        text = (
            f"base ModelVersion {name} does not exist in namespace {training.metadata.namespace}: "
            "create it, or the training of that name that makes it"
        )
        return conditions.reconciling("BaseModelVersionNotFound", text)
    if base.status.image_digest:
        return None
    if conditions.is_true(base.status.conditions, "Stalled"):
        text = f"base ModelVersion {name} has no image: {base.status.message}"
        return conditions.stalled("BaseModelVersionStalled", text)
    told = f": {base.status.message}" if base.status.message else ""
    return conditions.reconciling("BaseModelVersionNotReady", f"base ModelVersion {name} has no image yet{told}")
