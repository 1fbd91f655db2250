"""What a ModelVersion needs, from the folder to the digest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import (
    CLUSTER,
    DIGEST,
    HERE,
    NOW,
    built,
    failure,
    model,
    only_workload,
    reason,
    result,
    seconds,
    state,
    task,
    version,
)

from modelwright.api.meta import OwnerReference
from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.api.storage import NFS, Storage
from modelwright.ports.capabilities import Capabilities
from modelwright.ports.workloads import BuildImage, HostPath, Progress, TaskStatus
from modelwright.reconcile.model_version import Observed, reconcile
from modelwright.reconcile.plan import Plan
from modelwright.reconcile.retries import ATTEMPTS


def plan(subject: ModelVersion, *tasks: TaskStatus, here: Capabilities = HERE, owner: object = None) -> Plan:
    observed = Observed(model=owner or model(), tasks=tasks, capabilities=here)  # type: ignore[arg-type]
    return reconcile(subject, observed, NOW)


def running_task(subject: ModelVersion) -> str:
    return str(only_workload(plan(subject)).name)


def test_a_new_version_is_built_and_says_so() -> None:
    first = plan(version())
    build = only_workload(first)
    assert isinstance(build.action, BuildImage)
    assert build.action.source == HostPath(path="/models/digits", node_name="laptop")
    assert build.action.repository == "127.0.0.1:5000/modelhub/digits"
    assert build.action.tags[:2] == ("v1c072", "v1c072e")
    assert first.status.image_build_phase == "ImageBuilding"
    assert state(first.status.conditions) == {"Ready": "False", "Reconciling": "True", "Stalled": "False"}


def test_the_same_version_always_asks_for_the_same_task() -> None:
    assert plan(version()).workloads == plan(version()).workloads


def test_a_tag_that_was_asked_for_is_the_only_candidate() -> None:
    assert only_workload(plan(version(image_tag="stable"))).action.tags == ("stable",)


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        ("modelhub/resnet", "127.0.0.1:5000/modelhub/resnet"),
        ("resnet", "127.0.0.1:5000/resnet"),
        ("localhost/resnet", "localhost/resnet"),
        ("registry.test/a/b", "registry.test/a/b"),
        ("registry:5000/b", "registry:5000/b"),
    ],
)
def test_a_repository_without_a_host_goes_to_the_default_registry(repository: str, expected: str) -> None:
    assert only_workload(plan(version(image_repo=repository))).action.repository == expected


def test_progress_stands_in_the_status() -> None:
    name = running_task(version())
    status = plan(version(), task(name, "Running", progress=Progress(5, 10))).status
    assert (status.progress.bytes_done, status.progress.bytes_total) == (5, 10)


def test_a_build_that_succeeded_becomes_an_image_with_a_digest() -> None:
    done = task(running_task(version()), "Succeeded", result=result(metrics={"accuracy": 0.9}), finished_at=NOW)
    after = plan(version(), done)
    assert after.workloads == ()
    assert after.status.image == "modelhub/digits:v1c072"
    assert after.status.image_digest == DIGEST
    assert after.status.resolved_image.endswith(f"@{DIGEST}")
    assert after.status.metrics == {"accuracy": 0.9}
    assert after.status.finish_time == NOW
    assert reason(after.status.conditions) == "ImageBuilt"


@pytest.mark.parametrize(
    "lie",
    [
        {"digest": "sha256:evil", "resolved": "127.0.0.1:5000/modelhub/digits@sha256:evil"},
        {"digest": f"{DIGEST}\n", "resolved": f"127.0.0.1:5000/modelhub/digits@{DIGEST}\n"},
        {"digest": "sha512:" + "ab" * 64, "resolved": "127.0.0.1:5000/modelhub/digits@sha512:" + "ab" * 64},
        {"resolved": f"evil.test/modelhub/digits@{DIGEST}"},
        {"resolved": f"127.0.0.1:5000/modelhub/other@{DIGEST}"},
        {"resolved": f"127.0.0.1:5000/library/modelhub/digits@{DIGEST}"},
        {"resolved": "127.0.0.1:5000/modelhub/digits@sha256:" + "cd" * 32},
        {"tag": ""},
        {"tag": "latest"},
        {"size_bytes": -1},
        {"size_bytes": 2**63},
        {"files": 2**31},
        {"metrics": {str(number): 1.0 for number in range(129)}},
        {"metrics": {"loss": float("inf")}},
    ],
)
def test_an_image_that_was_not_asked_for_is_not_believed(lie: dict[str, Any]) -> None:
    done = task(running_task(version()), "Succeeded", result=result(**lie), finished_at=NOW)
    after = plan(version(), done)
    assert after.status.image_digest == ""
    assert reason(after.status.conditions) == "ResultNotBelieved"
    assert "127.0.0.1:5000/modelhub/digits" in after.status.message
    assert after.keep == {done.name}
    assert after.warn


def test_a_repository_of_docker_hub_may_be_spelled_in_full() -> None:
    subject = version(image_repo="docker.io/digits")
    full = result(resolved=f"docker.io/library/digits@{DIGEST}")
    after = plan(subject, task(running_task(subject), "Succeeded", result=full, finished_at=NOW))
    assert after.status.resolved_image == full.resolved


def test_a_version_is_not_finished_in_the_future_whatever_the_clock_of_a_node_says() -> None:
    done = task(running_task(version()), "Succeeded", result=result(), finished_at=NOW + seconds(3600))
    assert plan(version(), done).status.finish_time == NOW


@pytest.mark.parametrize("ahead", [-7200, 7200])
def test_a_clock_that_is_hours_off_keeps_no_retry_waiting_for_hours(ahead: float) -> None:
    failed = task(running_task(version()), "Failed", failure=failure(), finished_at=NOW + seconds(ahead))
    assert plan(version(), failed).status.attempts == 2


def test_a_version_that_is_built_is_never_built_again() -> None:
    subject = built()
    assert plan(subject).workloads == ()
    asked = msgspec.structs.replace(
        subject.metadata, annotations={"modelwright.dev/reconcile-requested-at": "2026-01-01T00:00:00Z"}
    )
    after = plan(msgspec.structs.replace(subject, metadata=asked))
    assert after.workloads == ()
    assert after.status.image_digest == DIGEST


def test_a_failure_that_time_may_mend_is_tried_again_after_a_pause() -> None:
    name = running_task(version())
    failed = task(name, "Failed", failure=failure(), finished_at=NOW)
    waiting = plan(version(), failed)
    assert waiting.workloads == ()
    assert waiting.keep == {name}
    assert waiting.requeue_after is not None
    assert waiting.requeue_after > 0
    assert reason(waiting.status.conditions) == "RegistryUnavailable"
    assert "tried again" in waiting.status.message


def test_once_the_pause_is_over_the_next_attempt_has_another_name() -> None:
    name = running_task(version())
    failed = task(name, "Failed", failure=failure(), finished_at=NOW - seconds(60))
    again = plan(version(), failed)
    assert only_workload(again).name != name
    assert again.status.attempts == 2


def test_after_five_attempts_a_person_has_to_act() -> None:
    subject = version(status=ModelVersionStatus(attempts=ATTEMPTS, image_build_phase="ImageBuilding"))
    failed = task(running_task(subject), "Failed", failure=failure(), finished_at=NOW)
    status = plan(subject, failed).status
    assert status.image_build_phase == "ImageBuildFailed"
    assert state(status.conditions)["Stalled"] == "True"
    assert "modelwright.dev/reconcile-requested-at" in status.message


def test_a_failure_that_time_does_not_mend_stalls_at_once() -> None:
    failed = task(running_task(version()), "Failed", failure=failure("StoragePathNotFound", retryable=False))
    status = plan(version(), failed).status
    assert status.image_build_phase == "ImageBuildFailed"
    assert reason(status.conditions, "Stalled") == "StoragePathNotFound"


def failed_version(**annotations: str) -> ModelVersion:
    failed = task(running_task(version()), "Failed", failure=failure("Broken", retryable=False))
    meta = msgspec.structs.replace(version().metadata, annotations=annotations)
    return msgspec.structs.replace(version(), status=plan(version(), failed).status, metadata=meta)


def test_a_version_that_failed_stays_so_until_it_is_asked_for_again() -> None:
    assert plan(failed_version()).workloads == ()
    key = "modelwright.dev/reconcile-requested-at"
    again = plan(failed_version(**{key: "now"}))
    assert only_workload(again).name != running_task(version())
    assert again.status.attempts == 1
    assert again.status.last_handled_reconcile_at == "now"


def test_a_build_that_runs_is_not_disturbed_by_a_request_to_look_again() -> None:
    first = plan(version())
    asked = version(metadata={"annotations": {"modelwright.dev/reconcile-requested-at": "now"}})
    asked = msgspec.structs.replace(asked, status=first.status)
    during = plan(asked, task(running_task(version()), "Running"))
    assert during.workloads == first.workloads
    assert during.status.last_handled_reconcile_at == ""


def test_a_request_between_two_attempts_starts_one_at_once_and_holds_to_it() -> None:
    name = running_task(version())
    failed = task(name, "Failed", failure=failure(), finished_at=NOW)
    waiting = plan(version(), failed)
    asked = version(metadata={"annotations": {"modelwright.dev/reconcile-requested-at": "now"}})
    asked = msgspec.structs.replace(asked, status=waiting.status)
    started = only_workload(plan(asked, failed))
    assert started.name != name
    seen_again = plan(asked, failed, task(started.name, "Running"))
    assert only_workload(seen_again) == started
    assert seen_again.status.last_handled_reconcile_at == "now"


def test_a_task_that_a_restart_has_forgotten_is_asked_for_again_under_its_name() -> None:
    first = plan(version())
    resumed = msgspec.structs.replace(version(), status=first.status)
    assert plan(resumed).workloads == first.workloads


def test_a_model_is_made_for_a_version_that_names_one_that_does_not_exist() -> None:
    first = reconcile(version(), Observed(model=None, tasks=(), capabilities=HERE), NOW)
    (made,) = first.create
    assert (made.metadata.name, made.metadata.namespace) == ("digits", "default")
    assert first.owner is None


def test_a_version_is_owned_by_its_model() -> None:
    assert plan(version()).owner == OwnerReference(
        api_version="model.kubedl.io/v1alpha1",
        kind="Model",
        name="digits",
        uid="model-uid",
        controller=True,
        block_owner_deletion=True,
    )


def test_a_version_that_goes_away_with_its_former_model_makes_no_new_one() -> None:
    former = OwnerReference(api_version="model.kubedl.io/v1alpha1", kind="Model", name="digits", uid="former")
    subject = version(metadata={"owner_references": (former,)})
    assert reconcile(subject, Observed(model=None, tasks=(), capabilities=HERE), NOW).create == ()


@pytest.mark.parametrize(
    "other",
    [
        OwnerReference(api_version="example.test/v1", kind="Model", name="digits", uid="u"),
        OwnerReference(api_version="model.kubedl.io/v1alpha1", kind="Model", name="letters", uid="u"),
        OwnerReference(api_version="model.kubedl.io/v1alpha1", kind="ModelVersion", name="digits", uid="u"),
    ],
    ids=["of another group", "of another name", "of another kind"],
)
def test_who_else_owns_a_version_keeps_no_model_from_owning_it(other: OwnerReference) -> None:
    subject = version(metadata={"owner_references": (other,)})
    owner = plan(subject).owner
    assert owner is not None
    assert (owner.uid, owner.controller, owner.block_owner_deletion) == ("model-uid", True, True)
    assert len(reconcile(subject, Observed(model=None, tasks=(), capabilities=HERE), NOW).create) == 1


def test_a_version_of_another_api_version_of_the_group_knows_its_model() -> None:
    later = OwnerReference(api_version="model.kubedl.io/v1", kind="Model", name="digits", uid="model-uid")
    assert plan(version(metadata={"owner_references": (later,)})).owner is None


def test_while_its_model_is_being_deleted_a_new_version_neither_joins_it_nor_makes_another() -> None:
    """`kubectl delete --cascade=foreground` keeps the Model until what it blocks for is gone: then another is made."""
    going = model(deletion_timestamp=NOW, finalizers=("foregroundDeletion",))
    waiting = plan(version(), owner=going)
    assert (waiting.owner, waiting.create) == (None, ())
    assert len(waiting.workloads) == 1
    assert len(reconcile(version(), Observed(model=None, tasks=(), capabilities=HERE), NOW).create) == 1


def test_a_version_that_was_orphaned_gets_a_model_again() -> None:
    """`kubectl delete --cascade=orphan` takes the owner references away, then the Model: the versions stay."""
    left = built()
    assert len(reconcile(left, Observed(model=None, tasks=(), capabilities=HERE), NOW).create) == 1
    adopted = plan(left).owner
    assert adopted is not None
    assert adopted.uid == "model-uid"


def test_a_version_that_is_being_deleted_runs_nothing() -> None:
    assert plan(version(metadata={"deletion_timestamp": NOW})) == Plan()


def test_a_suspended_version_is_left_as_it_is() -> None:
    subject = version(metadata={"annotations": {"modelwright.dev/suspend": "true"}})
    assert plan(subject).untouched


@pytest.mark.parametrize(
    ("changes", "here", "expected"),
    [
        ({"storage": Storage(nfs=NFS(server="nas", path="/m"))}, HERE, "StorageNotSupported"),
        ({"builder": "kaniko"}, HERE, "NeedsContainers"),
        ({}, CLUSTER, "NoRegistry"),
    ],
)
def test_what_cannot_be_built_here_is_said(changes: dict[str, Any], here: Capabilities, expected: str) -> None:
    after = plan(version(**changes), here=here)
    assert after.workloads == ()
    assert reason(after.status.conditions, "Stalled") == expected


def test_a_foreign_node_name_is_spoken_of_once() -> None:
    new = version(status=ModelVersionStatus())
    elsewhere = msgspec.structs.replace(HERE, single_node="other")
    assert [notice.reason for notice in plan(new, here=elsewhere).notices] == ["NodeIsThisMachine"]
    assert plan(version(), here=elsewhere).notices == ()


def test_numbers_that_could_not_be_used_are_told_once() -> None:
    done = task(running_task(version()), "Succeeded", result=result(metrics_ignored="no numbers"), finished_at=NOW)
    found = plan(version(), done)
    assert [(notice.type, notice.reason) for notice in found.notices] == [("Warning", "MetricsIgnored")]
    again = msgspec.structs.replace(version(), status=found.status)
    assert plan(again, done).notices == ()
