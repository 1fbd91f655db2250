"""A training that ended well: its ModelVersion is made once, and from then on the training only tells how that is."""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.ports.capabilities import Capabilities
from modelwright.reconcile import conditions
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.storage import node_of
from modelwright.reconcile.training_attempts import Attempt
from modelwright.reconcile.training_plans import ended_task, settled
from modelwright.reconcile.training_result import made_by, result_of


def finished(
    training: TrainingModel, result: ModelVersion | None, capabilities: Capabilities, attempt: Attempt, now: datetime
) -> Plan:
    """Make the version if it has never been made, and say how it is; `result` has the training's name."""
    status = training.status
    ended = attempt.seen.finished_at if attempt.seen is not None else None
    ours = result if made_by(result, training) else None
    status = msgspec.structs.replace(
        status,
        phase="Succeeded",
        completion_time=status.completion_time or ended or now,
        model_version=ours.metadata.name if ours is not None else status.model_version,
    )
    if status.model_version:
        wanted = told_of(ours) if ours is not None else deleted(training)
        return settled(training, status, wanted, now, ended_task(training, attempt))
    if result is not None:
        return settled(training, status, taken(training), now, ended_task(training, attempt))
    text = f"the training ended well; making ModelVersion {training.metadata.name} of what it wrote"
    wanted = conditions.reconciling("TrainingSucceeded", text)
    plan = settled(training, status, wanted, now, ended_task(training, attempt))
    node = status.node_name or training.spec.node_name or node_of(training.spec.storage) or capabilities.single_node
    return msgspec.structs.replace(plan, create=(result_of(training, attempt.seen, node),))


def told_of(version: ModelVersion) -> tuple[Condition, ...]:
    """Ready once the version has its image."""
    name = version.metadata.name
    if version.status.image_digest:
        return conditions.ready("ModelVersionReady", f"ModelVersion {name} is {version.status.image}")
    if conditions.is_true(version.status.conditions, "Stalled"):
        text = f"the training ended well, and its ModelVersion {name} has no image: {version.status.message}"
        return conditions.stalled("ModelVersionStalled", text)
    return conditions.reconciling("ModelVersionNotReady", f"ModelVersion {name} has no image yet{said_by(version)}")


def said_by(version: ModelVersion) -> str:
    """What it is about or waits for, as the end of a sentence."""
    return f": {version.status.message}" if version.status.message else ""


def taken(training: TrainingModel) -> tuple[Condition, ...]:
    """Somebody made a version of that name while the training ran."""
    text = (
        f"the training ended well, and there is a ModelVersion {training.metadata.name} that it has not made: "
        "delete that, and what was trained becomes the version"
    )
    return conditions.stalled("ModelVersionNameTaken", text)


def deleted(training: TrainingModel) -> tuple[Condition, ...]:
    """The version was deleted. If it had its image the training has done all that it was for."""
    local = training.spec.storage.local_storage
    text = (
        f"ModelVersion {training.status.model_version}, which the training made, has been deleted; a training that "
        "ended well is not run again: make a ModelVersion of "
        f"{local.path if local is not None else 'its storage'}, or train under another name"
    )
    was_ready = conditions.is_true(training.status.conditions, "Ready")
    return (conditions.ready if was_ready else conditions.stalled)("ModelVersionDeleted", text)
