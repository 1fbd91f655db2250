"""Attempts of a training: which one is the present one, which of them count as failures, when the next may begin.

Each attempt is a Task of its own. They are numbered from 1 for the life of the training and never share a name, so that
whatever happens between two writes, what is seen to run tells which attempt it is.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from modelwright.api.training_model import TrainingModel
from modelwright.ports.workloads import Failure, TaskStatus
from modelwright.reconcile import names
from modelwright.reconcile.retries import retry_delay

INTERRUPTED = "Interrupted"
"""The reason of an attempt that was ended with the control plane, through no fault of its own."""
LONGEST_PAUSE = 360.0
LONGEST_PAUSE_INTERRUPTED = 60.0
DOUBLINGS = 20


class Attempt(msgspec.Struct, frozen=True):
    """`uncounted` of the attempts up to this one do not count as failures; `seen` is None if nothing is seen of it."""

    number: int
    uncounted: int
    seen: TaskStatus | None = None

    @property
    def lives(self) -> bool:
        """Whether it waits to run, or runs."""
        return self.seen is not None and is_live(self.seen)

    @property
    def succeeded(self) -> bool:
        return self.seen is not None and self.seen.phase == "Succeeded"

    @property
    def failed(self) -> bool:
        return self.seen is not None and self.seen.phase == "Failed"

    @property
    def interrupted(self) -> bool:
        return self.failed and self.failure.reason == INTERRUPTED

    @property
    def forgiven(self) -> bool:
        """Whether somebody has asked to start again since: the next attempt waits for nothing."""
        return self.uncounted >= self.number

    @property
    def failure(self) -> Failure:
        """Why it failed."""
        found = self.seen.failure if self.seen is not None else None
        return found or Failure(reason="TrainingFailed", message="it ended without saying why", retryable=True)

    @property
    def failures(self) -> int:
        """How many attempts have failed by now, this one included."""
        counted = self.failed and not self.interrupted
        return max(0, self.number - 1 - self.uncounted + (1 if counted else 0))


def task_name(training: TrainingModel, number: int) -> str:
    """The name of the Task that is this attempt; what it holds is not part of it, lest a change starts it twice."""
    return names.child_name(training.metadata.name, "train", training.metadata.uid, number)


def is_live(task: TaskStatus) -> bool:
    return task.phase in ("Pending", "Running")


def recorded(training: TrainingModel, tasks: tuple[TaskStatus, ...]) -> Attempt:
    """The attempt that the status speaks of, or the first."""
    number = max(training.status.attempts, 1)
    return Attempt(number, training.status.uncounted, seen_as(training, number, tasks))


def present(training: TrainingModel, tasks: tuple[TaskStatus, ...]) -> Attempt:
    """The present attempt: the last that has begun, though the status may not say so yet of several.

    Who is killed between starting an attempt and writing that down, twice in a row, leaves two that are not recorded.
    """
    attempt = recorded(training, tasks)
    while (seen := seen_as(training, attempt.number + 1, tasks)) is not None:
        attempt = msgspec.structs.replace(following(attempt), seen=seen)
    return attempt


def seen_as(training: TrainingModel, number: int, tasks: tuple[TaskStatus, ...]) -> TaskStatus | None:
    name = task_name(training, number)
    return next((task for task in tasks if task.name == name), None)


def following(attempt: Attempt) -> Attempt:
    """The attempt after this one, of which nothing is seen yet."""
    forgiven = attempt.interrupted and not attempt.forgiven
    return Attempt(attempt.number + 1, attempt.uncounted + (1 if forgiven else 0))


def next_start(training: TrainingModel, attempt: Attempt, now: datetime) -> datetime:
    """When the attempt after this failed one may begin: the pauses double, up to six minutes."""
    ended = attempt.seen.finished_at if attempt.seen is not None else None
    if attempt.forgiven or ended is None:
        return now
    count = attempt.uncounted + 1 if attempt.interrupted else max(attempt.failures, 1)
    limit = LONGEST_PAUSE_INTERRUPTED if attempt.interrupted else LONGEST_PAUSE
    return ended + timedelta(seconds=min(retry_delay(training.metadata.uid, min(count, DOUBLINGS)), limit))


def is_last(training: TrainingModel, attempt: Attempt) -> bool:
    """Whether nothing is tried after this failed attempt."""
    if attempt.interrupted:
        return False
    return not attempt.failure.retryable or attempt.failures > training.spec.backoff_limit


def deadline_of(training: TrainingModel) -> datetime | None:
    """When the training has to have ended, over all its attempts; None if nobody has set a limit, or none has begun."""
    seconds, start = training.spec.active_deadline_seconds, training.status.start_time
    return start + timedelta(seconds=seconds) if seconds and start else None
