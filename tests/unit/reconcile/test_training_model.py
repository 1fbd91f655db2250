"""TrainingModel: attempts, retries, the deadline, requests, and the ModelVersion that is made of the result."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import (
    CLUSTER,
    HERE,
    NOW,
    built,
    only_workload,
    reason,
    seconds,
    state,
    task,
    training,
    version,
)

from modelwright.api.fields import Resources
from modelwright.api.kinds import decode, kind_of, to_dict
from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.api.storage import NFS, LocalStorage, PersistentVolumeClaim, Storage
from modelwright.api.training_model import Dataset, EnvVar, TrainingModel
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import (
    Claim,
    Command,
    Download,
    Failure,
    HostPath,
    ModelImage,
    Progress,
    Steps,
    TaskStatus,
    WorkerCounts,
)
from modelwright.reconcile import conditions
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.refusals import refused
from modelwright.reconcile.training_attempts import task_name
from modelwright.reconcile.training_model import Observed, reconcile
from modelwright.reconcile.training_result import TRAINING_UID

AGAIN = "modelwright.dev/reconcile-requested-at"
SUSPEND = "modelwright.dev/suspend"
BROKE = Failure(reason="CommandFailed", message="it exited with code 1", retryable=True)
WRONG = Failure(reason="ChecksumMismatch", message="another SHA-256", retryable=False)
INTERRUPTED = Failure(reason="Interrupted", message="it was ended before it was done", retryable=True)


def observed(*tasks: TaskStatus, **changes: Any) -> Observed:
    return msgspec.structs.replace(Observed(base=None, result=None, tasks=tasks, capabilities=HERE), **changes)


def attempt(number: int, phase: Any, subject: TrainingModel | None = None, **changes: Any) -> TaskStatus:
    return task(task_name(subject or training(), number), phase, **changes)


def failed(number: int, failure: Failure = BROKE, *, at: datetime = NOW, **changes: Any) -> TaskStatus:
    return attempt(number, "Failed", failure=failure, finished_at=at, started_at=at - seconds(10), **changes)


def after(subject: TrainingModel, plan: Plan) -> TrainingModel:
    """The training with the plan's status written."""
    return msgspec.structs.replace(subject, status=plan.status)


def asked(subject: TrainingModel, request: str = "now") -> TrainingModel:
    metadata = msgspec.structs.replace(subject.metadata, annotations={AGAIN: request})
    return msgspec.structs.replace(subject, metadata=metadata)


def result_of_this(**changes: Any) -> ModelVersion:
    """The version that the training made, still without an image."""
    return version("train", metadata={"labels": {TRAINING_UID: training().metadata.uid}}, **changes)


def trained(subject: TrainingModel | None = None, *seen: ModelVersion) -> tuple[TrainingModel, TaskStatus]:
    """A training that has ended well, and its task."""
    subject = subject or training()
    done = attempt(1, "Succeeded", subject, finished_at=NOW, started_at=NOW - seconds(60))
    plan = reconcile(subject, observed(done, result=seen[0] if seen else None), NOW)
    return after(subject, plan), done


# What runs ----------------------------------------------------------------------------------------------------------


def test_a_training_runs_one_task_that_is_told_where_things_are() -> None:
    subject = training(
        command=("train",),
        args=("--out", "$(KUBEDL_MODEL_PATH)"),
        env=(EnvVar(name="EPOCHS", value="3"),),
        workers=2,
        framework_type="pytorch",
        base_model_version="mv-1",
        datasets=(Dataset(name="digits", uri="https://data.test/digits.csv", sha256sum="ab" * 32),),
        download_secret="login",
        resources=Resources(limits={"cpu": 2, "memory": "1Gi"}),
    )
    wanted = only_workload(reconcile(subject, observed(base=built("mv-1")), NOW))
    command = wanted.action
    assert isinstance(command, Command)
    assert (command.command, command.args) == (("train",), ("--out", "$(KUBEDL_MODEL_PATH)"))
    assert (command.workers, command.framework) == (2, "pytorch")
    assert command.progress_file == "/kubedl-model/.modelwright/progress.json"
    assert command.env == {
        "KUBEDL_MODEL_PATH": "/kubedl-model",
        "KUBEDL_BASE_MODEL_PATH": "/kubedl-base-model",
        "MODELWRIGHT_DATASETS": "/datasets",
        "EPOCHS": "3",
    }
    mounts = {mount.path: (mount.volume, mount.read_only) for mount in command.mounts}
    assert mounts == {
        "/kubedl-model": (HostPath(path="/models/train", create=True), False),
        "/kubedl-base-model": (ModelImage(image=built("mv-1").status.resolved_image), True),
        "/datasets/digits": (
            Download(url="https://data.test/digits.csv", sha256sum="ab" * 32, secret="login"),
            True,
        ),
    }
    assert wanted.resources.limits == {"cpu": "2", "memory": "1Gi"}
    assert wanted.owner.uid == subject.metadata.uid


def test_attempts_share_what_was_read_until_somebody_trains_again() -> None:
    """Who has mended a dataset wants what is there now, be it in another training or in this one, asked for again."""
    unpinned = (Dataset(name="d", uri="file:///d.csv"),)

    def scope(subject: TrainingModel, *seen: TaskStatus, now: datetime = NOW) -> str:
        volume = only_workload(reconcile(subject, observed(*seen), now)).action.mounts[-1].volume
        assert isinstance(volume, Download)
        return volume.scope

    first = training(datasets=unpinned, backoff_limit=1)
    begun = scope(first)
    retried = after(first, reconcile(first, observed(failed(1)), NOW))
    assert scope(retried, failed(1), now=NOW + seconds(400)) == begun
    given_up = after(retried, reconcile(retried, observed(failed(2)), NOW))
    assert given_up.status.phase == "Failed"
    other = training("other", datasets=unpinned, metadata={"uid": "other"})
    assert len({begun, scope(asked(given_up), failed(2)), scope(other)}) == 3


def test_the_mount_path_of_the_storage_is_where_the_model_goes() -> None:
    local = LocalStorage(path="/models/train", mount_path="/out", node_name="n")
    wanted = only_workload(reconcile(training(storage=Storage(local_storage=local)), observed(), NOW))
    assert wanted.action.env["KUBEDL_MODEL_PATH"] == "/out"
    assert wanted.action.progress_file == "/out/.modelwright/progress.json"
    assert wanted.placement.node_name == "n"


def test_a_claim_is_mounted_on_a_cluster() -> None:
    claim = Storage(persistent_volume_claim=PersistentVolumeClaim(claim_name="models", sub_path="a"))
    subject = training(storage=claim, image_repo="hub.test/a", image="train:1", command=())
    wanted = only_workload(reconcile(subject, observed(capabilities=CLUSTER), NOW))
    assert wanted.action.mounts[0].volume == Claim(claim_name="models", sub_path="a")


def test_an_attempt_that_lives_is_left_alone_and_told_of() -> None:
    seen = attempt(
        1,
        "Running",
        started_at=NOW - seconds(5),
        workers=WorkerCounts(active=2, succeeded=1),
        steps=Steps(completed=3, total=10, message="epoch 3"),
        node_name="laptop",
    )
    plan = reconcile(training(workers=3), observed(seen), NOW)
    status = plan.status
    assert (plan.workloads, plan.keep) == ((), frozenset({seen.name}))
    assert (status.phase, status.attempts, status.failures) == ("Running", 1, 0)
    assert (status.workers.active, status.workers.succeeded, status.progress.completed) == (2, 1, 3)
    assert (status.node_name, status.start_time) == ("laptop", NOW - seconds(5))
    assert state(status.conditions) == {
        "Ready": "False",
        "Reconciling": "True",
        "Stalled": "False",
        "Succeeded": "Unknown",
    }
    assert "2 of 3 workers run" in status.message


def test_downloads_are_told_while_they_are_under_way() -> None:
    seen = attempt(1, "Pending", progress=Progress(1_000, 5_000))
    status = reconcile(training(), observed(seen), NOW).status
    assert status.phase == "Pending"
    assert "1,000 of 5,000 bytes" in status.message
    assert status.start_time is None


def test_a_download_that_is_tried_again_is_told_while_it_waits() -> None:
    down = Failure(reason="DownloadUnreachable", message="data.test does not answer", retryable=True)
    status = reconcile(training(), observed(attempt(1, "Pending", failure=down)), NOW).status
    assert (status.phase, status.failures) == ("Pending", 0)
    assert "data.test does not answer" in status.message


def test_what_a_hostile_progress_file_says_fits_into_a_status() -> None:
    seen = attempt(1, "Running", steps=Steps(completed=-5, total=2**200, message="x" * 100_000))
    subject = training()
    written = after(subject, reconcile(subject, observed(seen), NOW))
    assert decode(kind_of(TrainingModel).type, to_dict(written)) == written


# What stands against it ---------------------------------------------------------------------------------------------


AT_THE_ROOT = Storage(local_storage=LocalStorage(path="/m", mount_path="/"))
OVER_DATASETS = Storage(local_storage=LocalStorage(path="/m", mount_path="/datasets/out"))
NFS_STORAGE = Storage(nfs=NFS(server="files.test", path="/models"))
ONE = (Dataset(name="d", uri="file:///d"),)


@pytest.mark.parametrize(
    ("subject", "facts", "expected", "told"),
    [
        (training(image="train:1"), {}, "NeedsContainers", "train:1"),
        (training(command=(), framework_type="tensorflow"), {}, "NeedsContainers", "command"),
        (training(storage=NFS_STORAGE), {}, "StorageNotSupported", "localStorage"),
        (training(storage=AT_THE_ROOT), {}, "MountPathInvalid", "below"),
        (training(storage=OVER_DATASETS, datasets=ONE), {}, "MountsOverlap", "/datasets"),
        (training(), {"capabilities": CLUSTER}, "NoRegistry", "HOST/REPOSITORY"),
        (training(), {"result": version("train")}, "ModelVersionNameTaken", "another name"),
        (training(base_model_version="train"), {"awaited": ("train",)}, "BaseModelVersionCycle", "its own result"),
        (
            training(base_model_version="b"),
            {"awaited": ("b", "train")},
            "BaseModelVersionCycle",
            "train for b for train",
        ),
        (
            training(base_model_version="b"),
            {"base": version("b", status=ModelVersionStatus(message="no", conditions=conditions.stalled("X", "no")))},
            "BaseModelVersionStalled",
            "no",
        ),
    ],
)
def test_what_cannot_be_run_is_said_with_what_to_do(
    subject: TrainingModel, facts: dict[str, Any], expected: str, told: str
) -> None:
    plan = reconcile(subject, observed(**facts), NOW)
    assert (plan.workloads, plan.create, plan.status.phase) == ((), (), "Pending")
    assert reason(plan.status.conditions, "Stalled") == expected
    assert state(plan.status.conditions)["Stalled"] == "True"
    assert told in plan.status.message


def test_a_storage_over_the_datasets_is_fine_where_there_are_none() -> None:
    assert reconcile(training(storage=OVER_DATASETS), observed(), NOW).workloads


@pytest.mark.parametrize(
    ("base", "expected"), [(None, "BaseModelVersionNotFound"), (version("b"), "BaseModelVersionNotReady")]
)
def test_a_base_that_is_not_there_yet_is_waited_for(base: ModelVersion | None, expected: str) -> None:
    subject = training(base_model_version="b")
    plan = reconcile(subject, observed(base=base), NOW)
    assert reason(plan.status.conditions) == expected
    assert state(plan.status.conditions)["Reconciling"] == "True"
    assert plan.workloads == ()
    assert reconcile(after(subject, plan), observed(base=built("b")), NOW).workloads


def test_a_base_that_goes_while_the_training_runs_does_not_stop_it() -> None:
    seen = attempt(1, "Running")
    plan = reconcile(training(base_model_version="b"), observed(seen), NOW)
    assert plan.keep == {seen.name}
    assert plan.status.phase == "Running"


def test_a_base_with_an_image_ends_a_cycle() -> None:
    subject = training(base_model_version="b")
    assert reconcile(subject, observed(base=built("b"), awaited=("b", "train")), NOW).workloads


def test_a_suspended_training_is_not_touched() -> None:
    assert reconcile(training(metadata={"annotations": {SUSPEND: "true"}}), observed(), NOW).untouched


def test_a_deleted_training_wants_nothing() -> None:
    plan = reconcile(training(metadata={"deletion_timestamp": NOW}), observed(attempt(1, "Running")), NOW)
    assert (plan.workloads, plan.keep, plan.status) == ((), frozenset(), None)


def test_a_node_of_another_name_is_said_once() -> None:
    subject = training(node_name="gpu-7", metadata={"generation": 2})
    (notice,) = reconcile(subject, observed(), NOW).notices
    assert (notice.reason, "gpu-7" in notice.message) == ("NodeIsThisMachine", True)
    again = after(subject, reconcile(subject, observed(), NOW))
    assert reconcile(again, observed(), NOW).notices == ()


def test_resources_that_nobody_enforces_here_are_said_once() -> None:
    resources = Resources(requests={"cpu": 2}, limits={"memory": "1Gi", "nvidia.com/gpu": 1})
    subject = training(resources=resources, metadata={"generation": 2})
    (notice,) = reconcile(subject, observed(), NOW).notices
    assert notice.reason == "ResourcesNotEnforced"
    assert "resources.requests.cpu, limits.nvidia.com/gpu:" in notice.message
    only_memory = training(resources=Resources(limits={"memory": "1Gi"}), metadata={"generation": 2})
    assert reconcile(only_memory, observed(), NOW).notices == ()
    assert reconcile(subject, observed(capabilities=CLUSTER), NOW).notices == ()


def test_a_base_that_is_being_built_says_how_that_goes() -> None:
    waits = version("b", status=ModelVersionStatus(message="attempt 2 of 5 failed"))
    status = reconcile(training(base_model_version="b"), observed(base=waits), NOW).status
    assert "attempt 2 of 5 failed" in status.message


# Trying again -------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_is_tried_again_after_a_pause_in_which_it_is_kept() -> None:
    subject = training()
    plan = reconcile(subject, observed(failed(1)), NOW)
    assert (plan.workloads, plan.keep) == ((), frozenset({task_name(subject, 1)}))
    assert plan.requeue_after is not None
    assert 1.6 <= plan.requeue_after <= 2.4
    assert plan.warn
    assert (plan.status.phase, plan.status.attempts, plan.status.failures) == ("Pending", 1, 1)
    assert reason(plan.status.conditions) == "CommandFailed"
    assert "attempt 1 of 7" in plan.status.message
    later = reconcile(after(subject, plan), observed(failed(1)), NOW + seconds(3))
    assert only_workload(later).name == task_name(subject, 2)
    assert later.keep == {task_name(subject, 1)}, "until the next is written down"
    assert later.status.attempts == 1, "the second has not begun"


def test_the_next_attempt_is_counted_once_it_is_seen() -> None:
    subject = after(training(), reconcile(training(), observed(failed(1)), NOW))
    seen = attempt(2, "Running", started_at=NOW)
    plan = reconcile(subject, observed(failed(1), seen), NOW)
    assert plan.keep == {seen.name}
    assert (plan.status.attempts, plan.status.failures) == (2, 1)
    assert "attempt 2 of 7" in plan.status.message


def test_it_is_given_up_after_the_last_attempt() -> None:
    subject = training(backoff_limit=1)
    first = after(subject, reconcile(subject, observed(failed(1)), NOW))
    plan = reconcile(first, observed(failed(1), failed(2)), NOW)
    status = plan.status
    assert (status.phase, status.failures, status.completion_time) == ("Failed", 2, NOW)
    assert plan.keep == {task_name(subject, 2)}, "for its logs"
    assert state(status.conditions)["Succeeded"] == "False"
    assert reason(status.conditions, "Stalled") == "CommandFailed"
    assert "tried 2 times" in status.message
    assert AGAIN in status.message
    again = reconcile(after(first, plan), observed(failed(2)), NOW + seconds(9999))
    assert (again.status, again.workloads, again.keep) == (status, (), plan.keep)


def test_what_a_further_try_cannot_mend_is_given_up_at_once() -> None:
    plan = reconcile(training(), observed(failed(1, WRONG)), NOW)
    assert plan.status.phase == "Failed"
    assert reason(plan.status.conditions, "Succeeded") == "ChecksumMismatch"


def test_no_backoff_limit_means_a_single_attempt() -> None:
    assert reconcile(training(backoff_limit=0), observed(failed(1)), NOW).status.phase == "Failed"


def test_pauses_double_up_to_a_limit_and_begin_with_the_end_of_the_attempt() -> None:
    pauses = []
    for number in (1, 2, 3, 12):
        status = msgspec.structs.replace(training().status, attempts=number)
        subject = training(backoff_limit=100, status=status)
        pauses.append(reconcile(subject, observed(failed(number)), NOW).requeue_after)
    assert all(pause is not None for pause in pauses)
    first, second, third, last = (pause or 0.0 for pause in pauses)
    assert first < second < third < last <= 360


def test_a_failure_without_an_end_is_tried_again_at_once() -> None:
    assert reconcile(training(), observed(attempt(1, "Failed")), NOW).workloads


def test_an_interrupted_attempt_is_started_again_and_does_not_count() -> None:
    subject = training(backoff_limit=0)
    stopped = failed(1, INTERRUPTED)
    plan = reconcile(subject, observed(stopped), NOW)
    assert (plan.status.phase, plan.status.failures, plan.warn) == ("Pending", 0, False)
    subject = after(subject, plan)
    assert only_workload(reconcile(subject, observed(stopped), NOW + seconds(5))).name == task_name(subject, 2)
    status = reconcile(subject, observed(stopped, attempt(2, "Running")), NOW).status
    assert (status.attempts, status.failures, status.uncounted) == (2, 0, 1)
    last = reconcile(after(subject, Plan(status=status)), observed(failed(2)), NOW).status
    assert (last.phase, last.failures) == ("Failed", 1)


def test_what_is_interrupted_over_and_over_again_has_pauses_between() -> None:
    status = msgspec.structs.replace(training().status, attempts=50, uncounted=49)
    plan = reconcile(training(status=status), observed(failed(50, INTERRUPTED)), NOW)
    assert plan.requeue_after == 60


# The deadline -------------------------------------------------------------------------------------------------------


def test_the_deadline_runs_over_all_attempts() -> None:
    subject = training(active_deadline_seconds=100)
    assert only_workload(reconcile(subject, observed(), NOW)).deadline_seconds == 100
    ended = failed(1, at=NOW)  # it started ten seconds before
    second = only_workload(reconcile(subject, observed(ended), NOW + seconds(30)))
    assert second.deadline_seconds == 60


def test_the_deadline_ends_what_waits() -> None:
    subject = training(active_deadline_seconds=12)
    plan = reconcile(subject, observed(failed(1)), NOW)
    assert plan.requeue_after is not None
    assert plan.requeue_after <= 2, "the deadline comes before the next attempt, or with it"
    late = reconcile(after(subject, plan), observed(failed(1)), NOW + seconds(2))
    assert late.status.phase == "Failed"
    assert reason(late.status.conditions, "Stalled") == "DeadlineExceeded"
    assert late.workloads == ()
    told = failed(1).failure
    assert told
    assert told.message in late.status.message, "why it never ended well is worth more than that time is over"


def test_an_attempt_that_still_waits_at_the_deadline_is_taken_back() -> None:
    status = msgspec.structs.replace(training().status, attempts=2, start_time=NOW - seconds(100))
    subject = training(active_deadline_seconds=60, status=status)
    plan = reconcile(subject, observed(attempt(2, "Pending")), NOW)
    assert (plan.status.phase, plan.keep, plan.status.workers.active) == ("Failed", frozenset(), 0)
    still = reconcile(after(subject, plan), observed(attempt(2, "Pending")), NOW)
    assert still.keep == frozenset(), "whatever happened before it was removed"


def test_an_attempt_that_runs_is_ended_by_those_who_run_it() -> None:
    status = msgspec.structs.replace(training().status, attempts=1, start_time=NOW - seconds(100))
    plan = reconcile(training(active_deadline_seconds=60, status=status), observed(attempt(1, "Running")), NOW)
    assert plan.status.phase == "Running"


def test_a_training_that_ended_well_has_no_deadline_any_more() -> None:
    subject, done = trained(training(active_deadline_seconds=1))
    assert reconcile(subject, observed(done), NOW + seconds(1000)).status.phase == "Succeeded"


# Requests to look again ---------------------------------------------------------------------------------------------


def given_up() -> TrainingModel:
    subject = training(backoff_limit=0, active_deadline_seconds=1000)
    return after(subject, reconcile(subject, observed(failed(1)), NOW))


def test_a_request_starts_a_failed_training_again() -> None:
    subject = asked(given_up())
    plan = reconcile(subject, observed(failed(1)), NOW)
    assert only_workload(plan).name == task_name(subject, 2)
    assert only_workload(plan).deadline_seconds == 1000, "the time begins anew"
    seen = attempt(2, "Running", started_at=NOW)
    status = reconcile(subject, observed(failed(1), seen), NOW).status
    assert (status.phase, status.attempts, status.failures) == ("Running", 2, 0)
    assert (status.last_handled_reconcile_at, status.start_time, status.completion_time) == ("now", NOW, None)
    ended = reconcile(after(subject, Plan(status=status)), observed(failed(2)), NOW)
    assert (ended.status.phase, ended.status.failures) == ("Failed", 1)


def test_a_request_that_cannot_be_followed_yet_is_not_forgotten() -> None:
    subject = asked(given_up())
    taken = version("train")
    plan = reconcile(subject, observed(failed(1), result=taken), NOW)
    assert reason(plan.status.conditions, "Stalled") == "ModelVersionNameTaken"
    assert plan.status.last_handled_reconcile_at == "now"
    later = reconcile(after(subject, plan), observed(failed(1)), NOW)
    assert only_workload(later).name == task_name(subject, 2)


def test_a_request_while_it_runs_waits_for_the_end() -> None:
    subject = asked(training())
    plan = reconcile(subject, observed(attempt(1, "Running")), NOW)
    assert (plan.workloads, plan.status.last_handled_reconcile_at) == ((), "")
    subject = after(subject, plan)
    assert only_workload(reconcile(subject, observed(failed(1)), NOW)).name == task_name(subject, 2)
    done = reconcile(subject, observed(attempt(1, "Succeeded")), NOW)
    assert (done.workloads, done.status.last_handled_reconcile_at) == ((), "now")


def test_a_request_shortens_a_pause() -> None:
    subject = training()
    subject = asked(after(subject, reconcile(subject, observed(failed(1)), NOW)))
    assert only_workload(reconcile(subject, observed(failed(1)), NOW)).name == task_name(subject, 2)


@pytest.mark.parametrize("request_text", ["now", "x" * 5000])
def test_a_request_to_a_training_that_ended_well_runs_nothing(request_text: str) -> None:
    subject, done = trained()
    plan = reconcile(asked(subject, request_text), observed(done, result=result_of_this()), NOW)
    assert plan.workloads == ()
    assert plan.keep == {done.name}
    assert plan.status.last_handled_reconcile_at == request_text[:256]


# The result ---------------------------------------------------------------------------------------------------------


def test_a_training_that_ended_well_makes_a_version_of_its_own_name() -> None:
    done = attempt(1, "Succeeded", finished_at=NOW, started_at=NOW - seconds(60), node_name="gpu-7")
    plan = reconcile(training(), observed(done), NOW)
    (made,) = plan.create
    assert (made.metadata.name, made.metadata.namespace) == ("train", "default")
    assert made.metadata.owner_references == ()
    assert made.spec.created_by == "TrainingModel/train"
    assert made.spec.storage.local_storage.node_name == "gpu-7"
    assert (plan.status.phase, plan.status.completion_time) == ("Succeeded", NOW)
    assert plan.status.start_time == NOW - seconds(60)
    assert plan.status.model_version == "", "it is not there yet"
    assert state(plan.status.conditions)["Succeeded"] == "True"
    assert state(plan.status.conditions)["Ready"] == "False"
    assert plan.keep == {done.name}


def test_it_is_ready_once_the_version_has_its_image() -> None:
    subject, done = trained()
    building = reconcile(subject, observed(done, result=result_of_this()), NOW)
    assert (building.create, building.status.model_version) == ((), "train")
    assert reason(building.status.conditions) == "ModelVersionNotReady"
    there = result_of_this(status=built().status)
    status = reconcile(after(subject, building), observed(done, result=there), NOW).status
    assert state(status.conditions)["Ready"] == "True"
    assert there.status.image in status.message


def test_a_version_that_is_stalled_stalls_its_training() -> None:
    stalled = ModelVersionStatus(
        message="no file in it", conditions=conditions.stalled("StorageEmpty", "no file in it")
    )
    subject, done = trained(None, result_of_this())
    status = reconcile(subject, observed(done, result=result_of_this(status=stalled)), NOW).status
    assert reason(status.conditions, "Stalled") == "ModelVersionStalled"
    assert "no file in it" in status.message
    assert state(status.conditions)["Succeeded"] == "True"


def test_a_version_of_another_that_came_meanwhile_is_said_and_not_touched() -> None:
    subject, done = trained()
    other = version("train", metadata={"labels": {TRAINING_UID: "another"}})
    plan = reconcile(subject, observed(done, result=other), NOW)
    assert (plan.create, plan.update, plan.delete) == ((), (), ())
    assert reason(plan.status.conditions, "Stalled") == "ModelVersionNameTaken"
    assert reconcile(after(subject, plan), observed(done), NOW).create, "once that is gone"


def test_a_version_that_was_deleted_is_not_made_again() -> None:
    subject, done = trained(None, result_of_this())
    gone = reconcile(subject, observed(done), NOW)
    assert (gone.create, gone.workloads) == ((), ())
    assert reason(gone.status.conditions, "Stalled") == "ModelVersionDeleted"
    assert "/models/train" in gone.status.message
    subject = after(subject, reconcile(subject, observed(done, result=result_of_this(status=built().status)), NOW))
    gone = reconcile(subject, observed(done), NOW)
    assert reason(gone.status.conditions) == "ModelVersionDeleted"
    assert state(gone.status.conditions)["Ready"] == "True", "it has done all that it was for"
    assert reconcile(after(subject, gone), observed(done), NOW).status == gone.status


def test_a_training_whose_status_was_lost_is_not_run_again_if_its_version_is_there() -> None:
    plan = reconcile(training(), observed(result=result_of_this(status=built().status)), NOW)
    assert (plan.workloads, plan.create, plan.status.phase) == ((), (), "Succeeded")
    assert state(plan.status.conditions)["Ready"] == "True"


def test_a_training_whose_task_was_lost_after_its_end_makes_its_version_all_the_same() -> None:
    subject, _ = trained()
    (made,) = reconcile(subject, observed(), NOW).create
    assert made.spec.storage.local_storage.node_name == "laptop"


def test_a_refusal_is_the_message_too() -> None:
    planned = reconcile(training(), observed(), NOW).status
    status = refused(training(), planned, Invalid("1e5000 is too much", reason="QuantityInvalid"), NOW)
    assert status.message == "1e5000 is too much"
    assert reason(status.conditions, "Stalled") == "QuantityInvalid"
    assert state(status.conditions)["Succeeded"] == "Unknown"
