"""What a plan for a training says: its status with the condition Succeeded, and which Task is kept."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from modelwright.api.meta import Condition
from modelwright.api.training_model import TrainingModel, TrainingModelStatus
from modelwright.reconcile import conditions
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.training_attempts import Attempt, task_name


def settled(
    training: TrainingModel,
    status: TrainingModelStatus,
    wanted: tuple[Condition, ...],
    now: datetime,
    keep: Iterable[str] = (),
) -> Plan:
    """A plan that starts nothing, with this status and these conditions; the tasks in `keep` are left as they are."""
    generation = training.metadata.generation
    told = (*wanted, outcome(status, wanted))
    status = msgspec.structs.replace(
        status,
        message=ready_of(wanted).message[: conditions.MESSAGE_LIMIT],
        observed_generation=generation,
        conditions=conditions.settle(told, training.status.conditions, generation, now),
    )
    return Plan(status=status, keep=frozenset(keep))


def outcome(status: TrainingModelStatus, wanted: tuple[Condition, ...]) -> Condition:
    """Whether the training ended well, which is not whether its version has an image."""
    if status.phase == "Succeeded":
        return conditions.condition("Succeeded", "True", "TrainingSucceeded", "the training ended well")
    ready = ready_of(wanted)
    value: conditions.Status = "False" if status.phase == "Failed" else "Unknown"
    return conditions.condition("Succeeded", value, ready.reason, ready.message)


def ready_of(wanted: tuple[Condition, ...]) -> Condition:
    """The condition Ready, which is always among them."""
    return next(condition for condition in wanted if condition.type == "Ready")


def ended_task(training: TrainingModel, attempt: Attempt) -> tuple[str, ...]:
    """The Task of an attempt that has ended: it is kept for its logs, and for when it ended."""
    return (task_name(training, attempt.number),) if attempt.seen is not None and not attempt.lives else ()
