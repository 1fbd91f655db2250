"""TrainingModel: a command that runs to its end once, and a ModelVersion of what it wrote.

An attempt begins only when the one before is seen to have ended, and none begins after one that ended well: neither
when its ModelVersion is deleted, nor when somebody asks. What fails is tried again up to `backoffLimit` times; an
attempt that ended with the control plane does not count.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from modelwright.api.meta import Condition
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel, WorkerCounts
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import Failure, TaskStatus
from modelwright.reconcile import conditions, requests
from modelwright.reconcile.findings import Finding, first_finding
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.programs import not_run_here
from modelwright.reconcile.training_attempts import (
    Attempt,
    deadline_of,
    following,
    is_last,
    is_live,
    next_start,
    present,
    recorded,
)
from modelwright.reconcile.training_base import waiting_for
from modelwright.reconcile.training_ended import finished
from modelwright.reconcile.training_model_checks import CHECKS
from modelwright.reconcile.training_model_state import seen_status, started_text
from modelwright.reconcile.training_notices import once
from modelwright.reconcile.training_plans import ended_task, settled
from modelwright.reconcile.training_result import made_by
from modelwright.reconcile.training_rivals import in_use_by
from modelwright.reconcile.training_task import training_task


class Observed(msgspec.Struct, frozen=True):
    """What is there: the version to start from, the version of the training's own name, its attempts.

    `awaited` are the trainings whose results are waited for, each by the one before it; the first makes the base.
    `rivals` are the other trainings that write to the same place.
    """

    base: ModelVersion | None
    result: ModelVersion | None
    tasks: tuple[TaskStatus, ...]
    capabilities: Capabilities
    awaited: tuple[str, ...] = ()
    rivals: tuple[TrainingModel, ...] = ()


def reconcile(training: TrainingModel, observed: Observed, now: datetime) -> Plan:
    """What to do for this training now."""
    if requests.suspended(training):
        return Plan(untouched=True)
    if training.metadata.deletion_timestamp is not None:
        return Plan()
    finding = not_run_here("a TrainingModel", "command", observed.capabilities)
    if finding is not None:
        return left_alone(training, observed, finding, now)
    notices = once(training, observed.capabilities)
    training = start_again_if_asked(training, observed)
    return msgspec.structs.replace(decide(training, observed, now), notices=notices)


def left_alone(training: TrainingModel, observed: Observed, finding: Finding, now: datetime) -> Plan:
    """Where commands are not run nothing is begun, ended or made."""
    running = (task.name for task in observed.tasks)
    return settled(training, training.status, conditions.stalled(finding.reason, finding.message), now, running)


def start_again_if_asked(training: TrainingModel, observed: Observed) -> TrainingModel:
    """A request to look again forgives what failed. It waits for the end of an attempt that runs.

    A training that ended well is done, whoever asks.
    """
    attempt = recorded(training, observed.tasks)
    if not requests.requested_again(training) or attempt.lives:
        return training
    status = msgspec.structs.replace(training.status, last_handled_reconcile_at=requests.requested_at(training))
    begun = status.attempts > 0 or attempt.seen is not None
    if begun and not has_succeeded(training, observed, attempt):
        status = msgspec.structs.replace(
            status,
            phase="Pending",
            attempts=attempt.number,
            uncounted=attempt.number,
            failures=0,
            start_time=None,
            completion_time=None,
        )
    return msgspec.structs.replace(training, status=status)


def has_succeeded(training: TrainingModel, observed: Observed, attempt: Attempt) -> bool:
    """Whether an attempt ended well, whatever has become of the status or of the version since."""
    return training.status.phase == "Succeeded" or attempt.succeeded or made_by(observed.result, training)


def decide(training: TrainingModel, observed: Observed, now: datetime) -> Plan:
    """Ended, either way; running; or something to start, now or later."""
    attempt = present(training, observed.tasks)
    training = msgspec.structs.replace(training, status=seen_status(training, attempt))
    if has_succeeded(training, observed, attempt):
        return finished(training, observed.result, observed.capabilities, attempt, now)
    if training.status.phase == "Failed":
        return settled(training, training.status, given_up_before(training), now, ended_task(training, attempt))
    if attempt.failed and not attempt.forgiven and is_last(training, attempt):
        return given_up(training, attempt, attempt.failure, now)
    deadline = deadline_of(training)
    runs = attempt.seen is not None and attempt.seen.phase == "Running"
    if deadline is not None and now >= deadline and not runs:
        return given_up(training, attempt, too_late(training, attempt), now)
    plan = go_on(training, observed, attempt, now)
    return woken_at(plan, deadline, now) if deadline is not None and not runs else plan


def go_on(training: TrainingModel, observed: Observed, attempt: Attempt, now: datetime) -> Plan:
    """Leave the present attempt to run, wait, or start the next one."""
    if attempt.lives:
        return under_way(training, attempt, now)
    if not attempt.failed and not attempt.forgiven:
        return start(training, observed, attempt, attempt, now)
    due = next_start(training, attempt, now)
    if due > now:
        return waiting(training, attempt, (due - now).total_seconds(), now)
    return start(training, observed, attempt, following(attempt), now)


def woken_at(plan: Plan, deadline: datetime, now: datetime) -> Plan:
    """Look again at the deadline at the latest: what waits is not ended by anybody else."""
    left = (deadline - now).total_seconds()
    return msgspec.structs.replace(plan, requeue_after=min(left, plan.requeue_after or left))


# Attempts -----------------------------------------------------------------------------------------------------------


def start(training: TrainingModel, observed: Observed, former: Attempt, new: Attempt, now: datetime) -> Plan:
    """Start an attempt, unless something stands against it. The former is kept until the new one is written down."""
    against = what_stands_against(training, observed)
    status = msgspec.structs.replace(training.status, phase="Pending")
    if against is not None:
        kept = (*ended_task(training, former), *(task.name for task in observed.tasks if is_live(task)))
        return settled(training, status, against, now, kept)
    wanted = conditions.reconciling("TrainingPending", started_text(training, new))
    plan = settled(training, status, wanted, now, ended_task(training, former))
    base = observed.base if training.spec.base_model_version else None
    return msgspec.structs.replace(plan, workloads=(training_task(training, base, new.number, now),))


def what_stands_against(training: TrainingModel, observed: Observed) -> tuple[Condition, ...] | None:
    """Why nothing can be started now; None if it can."""
    finding = first_finding(CHECKS, training, observed)
    if finding is not None:
        return conditions.stalled(finding.reason, finding.message)
    if any(is_live(task) for task in observed.tasks):
        return conditions.reconciling("TrainingPending", "waiting for the end of a former attempt")
    return waiting_for(training, observed.base) or in_use_by(training, observed.rivals)


def under_way(training: TrainingModel, attempt: Attempt, now: datetime) -> Plan:
    """An attempt that waits to run, or runs, is left alone."""
    assert attempt.seen is not None  # noqa: S101 - it lives
    runs = attempt.seen.phase == "Running"
    status = msgspec.structs.replace(
        training.status,
        phase="Running" if runs else "Pending",
        start_time=training.status.start_time or (now if runs else None),
    )
    reason = "TrainingRunning" if runs else "TrainingPending"
    wanted = conditions.reconciling(reason, started_text(training, attempt))
    return settled(training, status, wanted, now, (attempt.seen.name,))


def waiting(training: TrainingModel, attempt: Attempt, pause: float, now: datetime) -> Plan:
    """Between two attempts. The Task that ended is kept, since its end is when the pause began."""
    failure = attempt.failure
    text = "the attempt was interrupted: it is started again, and does not count as a failure"
    if not attempt.interrupted:
        count = f"attempt {attempt.failures} of {training.spec.backoff_limit + 1}"
        text = f"{count} failed and is tried again: {failure.message}"
    status = msgspec.structs.replace(training.status, phase="Pending")
    wanted = conditions.reconciling(failure.reason, text)
    plan = settled(training, status, wanted, now, ended_task(training, attempt))
    return msgspec.structs.replace(plan, requeue_after=pause, warn=not attempt.interrupted)


# Failed for good ----------------------------------------------------------------------------------------------------


AGAIN = f"make a new TrainingModel, or set the annotation {requests.REQUESTED_AT} to the time now"


def given_up(training: TrainingModel, attempt: Attempt, failure: Failure, now: datetime) -> Plan:
    """Nothing more is tried. An attempt that still waits to run is taken back."""
    tried = f" (tried {attempt.failures} times)" if attempt.failures > 1 else ""
    ended = attempt.seen.finished_at if attempt.seen is not None and attempt.failed else None
    status = msgspec.structs.replace(training.status, phase="Failed", completion_time=ended or now)
    if attempt.lives:
        status = msgspec.structs.replace(status, workers=WorkerCounts(failed=training.spec.workers))
    wanted = conditions.stalled(failure.reason, f"{failure.message}{tried}; once that is mended, {AGAIN}")
    return settled(training, status, wanted, now, ended_task(training, attempt))


def given_up_before(training: TrainingModel) -> tuple[Condition, ...]:
    """What was said when it was given up."""
    said = tuple(condition for condition in training.status.conditions if condition.type != "Succeeded")
    return said if conditions.find(said, "Ready") else conditions.stalled("TrainingFailed", training.status.message)


def too_late(training: TrainingModel, attempt: Attempt) -> Failure:
    """What is given up between two attempts says how the last one had failed, too."""
    seconds = training.spec.active_deadline_seconds
    text = f"it took longer than activeDeadlineSeconds, {seconds} s over all its attempts"
    if attempt.failed and not attempt.interrupted:
        text = f"{text}; the last of them: {attempt.failure.message}"
    return Failure(reason="DeadlineExceeded", message=text)
