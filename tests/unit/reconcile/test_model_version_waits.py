"""What a ModelVersion says while its build cannot start, while it runs, and when it is given up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.reconcile.make import HERE, NOW, failure, model, only_workload, reason, seconds, state, task, version

from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.ports.workloads import Failure, Progress, TaskStatus
from modelwright.reconcile.conditions import transitions
from modelwright.reconcile.model_version import Observed, reconcile
from modelwright.reconcile.plan import Plan

CLAIM = Failure(
    reason="ClaimNotFound", message="PersistentVolumeClaim models does not exist: create it", retryable=True
)


def plan(subject: ModelVersion, *tasks: TaskStatus, later: float = 0) -> Plan:
    observed = Observed(model=model(), tasks=tasks, capabilities=HERE)
    return reconcile(subject, observed, NOW + seconds(later))


def then(subject: ModelVersion, told: Plan) -> ModelVersion:
    """The version with the status of the plan."""
    return msgspec.structs.replace(subject, status=told.status)


def build(phase: Any, subject: ModelVersion | None = None, **changes: Any) -> TaskStatus:
    return task(only_workload(plan(subject or version())).name, phase, **changes)


def events(before: ModelVersion, told: Plan) -> list[tuple[str, str]]:
    found = transitions(before.status.conditions, told.status.conditions, warn=told.warn)
    return [(notice.type, notice.reason) for notice in found]


# Waiting to start ---------------------------------------------------------------------------------------------------

WAITS = ["Unschedulable", "ImagePullFailed", "ClaimNotFound", "NodeNotFound", "MountFailed"]


@pytest.mark.parametrize("why", WAITS)
def test_what_keeps_a_build_from_starting_is_told_and_waited_for(why: str) -> None:
    subject = then(version(), plan(version()))
    waiting = plan(subject, build("Pending", failure=Failure(reason=why, message="what to do")), later=5)
    assert state(waiting.status.conditions) == {"Ready": "False", "Reconciling": "True", "Stalled": "False"}
    assert reason(waiting.status.conditions, "Reconciling") == why
    assert waiting.status.message == "what to do"
    assert waiting.status.image_build_phase == "ImageBuilding"
    assert events(subject, waiting) == [("Warning", why)]
    assert [each.name for each in waiting.workloads] == [build("Pending").name], "the task is left to wait"
    assert waiting.requeue_after is None


def test_it_goes_on_by_itself_once_what_it_waits_for_is_there() -> None:
    subject = then(version(), plan(version(), build("Pending", failure=CLAIM)))
    running = plan(subject, build("Running"), later=60)
    assert reason(running.status.conditions) == "ImageBuilding"
    assert running.status.message == "packing the model and pushing its image"
    assert events(subject, running) == [("Normal", "ImageBuilding")]


def test_however_often_it_is_looked_at_it_is_told_and_written_once() -> None:
    subject = then(version(), plan(version(), build("Pending", failure=CLAIM)))
    again = plan(subject, build("Pending", failure=CLAIM), later=600)
    assert again.status == subject.status
    assert events(subject, again) == []


GROWING = [
    ("Back-off 10s pulling image agent:1", "Back-off 5m0s pulling image agent:1"),
    ("0/3 nodes are available: 3 Insufficient cpu.", "0/12 nodes are available: 12 Insufficient cpu."),
    ("not mounted after 2m3.5s", "not mounted after 14h"),
    ("tried 9 times (x10 over 3m)", "tried 10 times (x11 over 45m2s)"),
]


@pytest.mark.parametrize(("first", "second"), GROWING)
def test_counts_and_ages_that_grow_in_a_message_cost_no_write(first: str, second: str) -> None:
    subject = then(version(), plan(version(), build("Pending", failure=Failure("Unschedulable", first))))
    again = plan(subject, build("Pending", failure=Failure("Unschedulable", second)), later=60)
    assert again.status == subject.status


def test_another_message_for_the_same_reason_is_written_and_no_event() -> None:
    subject = then(version(), plan(version(), build("Pending", failure=CLAIM)))
    other = Failure(reason="ClaimNotFound", message="PersistentVolumeClaim models is being deleted")
    again = plan(subject, build("Pending", failure=other), later=60)
    assert again.status.message == "PersistentVolumeClaim models is being deleted"
    assert again.status.conditions[0].last_transition_time == NOW
    assert events(subject, again) == []


def test_a_further_attempt_that_waits_says_which_it_is() -> None:
    second = version(status=ModelVersionStatus(attempts=2, image_build_phase="ImageBuilding"))
    waiting = plan(second, build("Pending", second, failure=CLAIM))
    assert waiting.status.message.startswith("attempt 2 of 5: PersistentVolumeClaim models does")


def test_a_request_begins_a_build_anew_that_cannot_start() -> None:
    """What an admin has mended in the operator's settings, such as the agent's image, is not in the Pod that waits."""
    subject = then(version(), plan(version(), build("Pending", failure=CLAIM)))
    annotations = {"modelwright.dev/reconcile-requested-at": "now"}
    asked = msgspec.structs.replace(
        subject, metadata=msgspec.structs.replace(subject.metadata, annotations=annotations)
    )
    former = build("Pending", failure=CLAIM)
    anew = plan(asked, former)
    assert [each.name for each in anew.workloads] != [former.name]
    assert (anew.keep, anew.status.last_handled_reconcile_at, anew.status.attempts) == (frozenset(), "now", 1)
    following = then(asked, anew)
    again = plan(following, task(only_workload(anew).name, "Pending", failure=CLAIM))
    assert again.workloads == anew.workloads, "once for each request"
    assert plan(asked, build("Pending")).status.last_handled_reconcile_at == "", "one that starts is not disturbed"


def test_a_failure_that_a_running_build_carries_is_not_taken_for_a_wait() -> None:
    running = plan(version(), build("Running", failure=CLAIM))
    assert reason(running.status.conditions) == "ImageBuilding"


def test_a_message_without_end_can_be_stored_and_is_written_once() -> None:
    endless = Failure(reason="Unschedulable", message="word " * 5000)
    subject = then(version(), plan(version(), build("Pending", failure=endless)))
    assert len(subject.status.message) <= 4096
    assert plan(subject, build("Pending", failure=endless), later=9).status == subject.status


# Running ------------------------------------------------------------------------------------------------------------


def progressed(subject: ModelVersion, done: int, total: int) -> ModelVersion:
    return then(subject, plan(subject, build("Running", progress=Progress(done, total))))


def shown(subject: ModelVersion) -> tuple[int, int]:
    progress = subject.status.progress
    assert progress is not None
    return progress.bytes_done, progress.bytes_total


def test_progress_is_written_in_steps_that_a_person_can_see() -> None:
    subject = progressed(version(), 100, 10_000)
    assert shown(progressed(subject, 299, 10_000)) == (100, 10_000)
    assert shown(progressed(subject, 300, 10_000)) == (300, 10_000)
    assert shown(progressed(subject, 10_000, 10_000)) == (10_000, 10_000)


def test_progress_that_begins_anew_or_learns_of_more_is_written() -> None:
    subject = progressed(version(), 500, 1000)
    assert shown(progressed(subject, 0, 1000)) == (0, 1000)
    assert shown(progressed(subject, 501, 2000)) == (501, 2000)
    assert then(subject, plan(subject, build("Running"))).status.progress is None


@given(st.integers(1, 10**12), st.lists(st.floats(0, 1), max_size=300))
@settings(max_examples=30)
def test_a_build_costs_no_more_writes_than_it_has_steps(total: int, reports: list[float]) -> None:
    subject, writes = version(), 0
    for share in sorted(reports):
        after = progressed(subject, int(total * share), total)
        writes += after.status != subject.status
        subject = after
    assert writes <= 52


def test_progress_towards_no_known_end_is_written_ever_more_rarely() -> None:
    subject, writes = version(), 0
    for done in range(0, 1_000_000, 500):
        after = progressed(subject, done, 0)
        writes += after.status != subject.status
        subject = after
    assert 50 < writes < 500


# Given up -----------------------------------------------------------------------------------------------------------


def test_a_build_that_is_given_up_says_what_was_wrong_and_the_command_that_starts_it_again() -> None:
    denied = Failure(reason="RegistryDenied", message="registry.test: user ci may not push to modelhub/digits")
    told = plan(version(), build("Failed", failure=denied, finished_at=NOW))
    assert told.status.message == (
        "registry.test: user ci may not push to modelhub/digits; once that is mended, make a new ModelVersion, or have "
        "this one tried again: kubectl annotate mv/mv-1 -n default --overwrite "
        "modelwright.dev/reconcile-requested-at=$(date +%s)"
    )
    assert [each.message for each in told.status.conditions if each.type == "Stalled"] == [told.status.message]


def test_what_to_do_stands_at_the_end_however_long_the_failure_is() -> None:
    told = plan(version(), build("Failed", failure=Failure(reason="BuildFailed", message="word " * 5000)))
    assert len(told.status.message) <= 4096
    assert told.status.message.endswith("modelwright.dev/reconcile-requested-at=$(date +%s)")


def test_between_two_attempts_it_says_which_failed() -> None:
    told = plan(version(), build("Failed", failure=failure(), finished_at=NOW))
    assert told.status.message == "attempt 1 of 5 failed and is tried again: the registry does not answer"
    assert events(version(), told) == [("Warning", "RegistryUnavailable")]
