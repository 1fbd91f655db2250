"""What a TrainingModel's status tells of its present attempt."""

from __future__ import annotations

import msgspec

from modelwright.api.training_model import TrainingModel, TrainingModelStatus, TrainingProgress, WorkerCounts
from modelwright.ports.workloads import Steps, TaskStatus
from modelwright.reconcile.training_attempts import Attempt

STEPS_LIMIT = 2**63 - 1
TEXT_LIMIT = 1024


def seen_status(training: TrainingModel, attempt: Attempt) -> TrainingModelStatus:
    """The status with what is seen of the attempt; an attempt of which nothing is seen changes nothing."""
    status, seen = training.status, attempt.seen
    if seen is None:
        return status
    began = attempt.number > status.attempts
    return msgspec.structs.replace(
        status,
        attempts=attempt.number,
        failures=attempt.failures,
        uncounted=attempt.uncounted,
        workers=worker_counts(training, seen),
        progress=progress(seen.steps) or (None if began else status.progress),
        node_name=seen.node_name or status.node_name,
        start_time=status.start_time or (None if attempt.forgiven else seen.started_at),
    )


def worker_counts(training: TrainingModel, seen: TaskStatus) -> WorkerCounts:
    """How many workers do what; all the same where the workloads do not say."""
    if seen.workers is not None:
        counts = seen.workers
        return WorkerCounts(active=counts.active, succeeded=counts.succeeded, failed=counts.failed)
    everyone = training.spec.workers
    if seen.phase == "Succeeded":
        return WorkerCounts(succeeded=everyone)
    return WorkerCounts(failed=everyone) if seen.phase == "Failed" else WorkerCounts(active=everyone)


def progress(steps: Steps | None) -> TrainingProgress | None:
    """What the training says of itself, within the limits of a status: it may have written anything."""
    if steps is None:
        return None
    return TrainingProgress(
        completed=min(max(steps.completed, 0), STEPS_LIMIT),
        total=min(max(steps.total, 0), STEPS_LIMIT),
        message=steps.message[:TEXT_LIMIT],
    )


def started_text(training: TrainingModel, attempt: Attempt) -> str:
    """What an attempt that lives is doing."""
    seen = attempt.seen
    if seen is None or seen.phase == "Pending":
        return f"starting the training{fetched(seen)}{ordinal(training, attempt)}"
    active = worker_counts(training, seen).active
    workers = "1 worker runs" if training.spec.workers == 1 else f"{active} of {training.spec.workers} workers run"
    return f"{workers}{ordinal(training, attempt)}"


def ordinal(training: TrainingModel, attempt: Attempt) -> str:
    """Which try it is, as the end of a sentence; nothing for the first."""
    failed = attempt.number - 1 - attempt.uncounted
    return f", attempt {failed + 1} of {training.spec.backoff_limit + 1}" if failed > 0 else ""


def fetched(seen: TaskStatus | None) -> str:
    """How much of what it needs has been fetched, or why it has not, as the end of a sentence."""
    if seen is not None and seen.failure is not None and seen.failure.reason == "StorageInUse":
        return f": waiting, since {seen.failure.message}"
    if seen is not None and seen.failure is not None:
        return f": what it reads cannot be fetched, and is tried again: {seen.failure.message}"
    if seen is None or seen.progress is None:
        return ""
    done, total = seen.progress.bytes_done, seen.progress.bytes_total
    return f": fetching what it reads, {done:,} of {total:,} bytes" if total else f": fetching {done:,} bytes"
