"""Statuses that a store takes and that are true, whatever the user or a workload has written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import (
    CLUSTER,
    HERE,
    NOW,
    built,
    failure,
    model,
    only_workload,
    reason,
    result,
    served,
    server,
    state,
    task,
    version,
)

from modelwright.api.kinds import decode, kind_of, to_dict
from modelwright.api.meta import OwnerReference
from modelwright.api.model_version import ModelVersion, ModelVersionStatus
from modelwright.api.storage import NFS, Storage
from modelwright.ports.errors import Invalid, Unavailable
from modelwright.ports.workloads import Failure, ServerStatus, TaskStatus
from modelwright.reconcile import inference_model, model_version
from modelwright.reconcile import model as model_reconciler
from modelwright.reconcile.inference_model import server_name
from modelwright.reconcile.model_version import reconcile
from modelwright.reconcile.refusals import refused

AGAIN = "modelwright.dev/reconcile-requested-at"
NFS_STORAGE = Storage(nfs=NFS(server="files.test", path="/models"))


def observed(*tasks: TaskStatus, here: Any = HERE) -> model_version.Observed:
    return model_version.Observed(model=model(), tasks=tasks, capabilities=here)


def asked(subject: ModelVersion, request: str) -> ModelVersion:
    metadata = msgspec.structs.replace(subject.metadata, annotations={AGAIN: request})
    return msgspec.structs.replace(subject, metadata=metadata)


def in_phase(phase: Any, **fields: Any) -> ModelVersion:
    return version(status=ModelVersionStatus(image_build_phase=phase, attempts=3, finish_time=NOW, **fields))


SUBJECTS = [version(), in_phase("ImageBuilding"), in_phase("ImageBuildFailed"), built(), version(storage=NFS_STORAGE)]


@pytest.mark.parametrize("subject", SUBJECTS, ids=["new", "building", "failed", "built", "not possible here"])
@pytest.mark.parametrize("request_text", ["now", "x" * 5000], ids=["short", "long"])
def test_a_request_to_look_again_leads_to_a_status_that_can_be_stored(subject: ModelVersion, request_text: str) -> None:
    status = reconcile(asked(subject, request_text), observed(), NOW).status
    written = msgspec.structs.replace(subject, status=status)
    assert decode(kind_of(ModelVersion).type, to_dict(written)) == written
    assert status.last_handled_reconcile_at == request_text[:256]


def test_a_build_that_begins_again_has_not_ended() -> None:
    status = reconcile(asked(in_phase("ImageBuildFailed"), "now"), observed(), NOW).status
    assert (status.image_build_phase, status.attempts, status.finish_time) == ("ImageBuilding", 1, None)


def test_what_cannot_be_built_here_any_more_is_not_being_built() -> None:
    status = reconcile(version(status=in_phase("ImageBuilding").status, storage=NFS_STORAGE), observed(), NOW).status
    assert status.image_build_phase is None
    assert reason(status.conditions, "Stalled") == "StorageNotSupported"


def test_a_build_that_was_over_before_it_was_seen_to_run_counts_as_one_attempt() -> None:
    name = only_workload(reconcile(version(), observed(), NOW)).name
    done = task(name, "Succeeded", result=result(), finished_at=NOW)
    assert reconcile(version(), observed(done), NOW).status.attempts == 1


def test_a_failure_of_many_words_is_cut_to_what_a_status_holds() -> None:
    name = only_workload(reconcile(version(), observed(), NOW)).name
    long = Failure(reason="BuildFailed", message="word " * 10_000)
    status = reconcile(version(), observed(task(name, "Failed", failure=long)), NOW).status
    assert len(status.message) <= 4096
    assert reconcile(msgspec.structs.replace(version(), status=status), observed(), NOW).status == status


def test_a_version_with_a_controller_gets_its_model_as_another_owner() -> None:
    training = OwnerReference("example.test/v1", "Training", "t", "uid-t", controller=True)
    owner = reconcile(version(metadata={"owner_references": (training,)}), observed(), NOW).owner
    assert owner is not None
    assert not owner.controller


def test_a_version_without_a_finish_time_is_older_than_all_others() -> None:
    without = msgspec.structs.replace(built("z").status, finish_time=None)
    versions = (version("z", status=without), built("a"))
    status = model_reconciler.reconcile(model(), model_reconciler.Observed(versions=versions), NOW).status
    assert status.latest_version.model_version == "a"


# Serving ------------------------------------------------------------------------------------------------------------


def serve(subject: Any, source: ModelVersion | None, seen: ServerStatus | None, here: Any = HERE) -> Any:
    facts = inference_model.Observed(model_version=source, server=seen, capabilities=here)
    return inference_model.reconcile(subject, facts, NOW)


def test_a_server_that_answers_with_another_version_is_not_ready() -> None:
    subject = served(model_version="mv-2")
    status = serve(subject, built("mv-2"), server(server_name(subject), serving_version="mv-1")).status
    assert state(status.conditions)["Ready"] == "False"
    assert status.history == ()


@pytest.mark.parametrize("source", [None, version("mv-1")], ids=["no version", "not built"])
@pytest.mark.parametrize(("replicas", "kept"), [(0, 0), (1, 1), (5, 1)])
def test_replicas_0_stops_what_runs_even_without_a_version(source: Any, replicas: int, kept: int) -> None:
    subject = served(replicas=replicas)
    plan = serve(subject, source, server(server_name(subject)))
    assert len(plan.keep) == kept
    assert plan.workloads == ()


@pytest.mark.parametrize("here", [HERE, CLUSTER], ids=["here", "cluster"])
def test_what_waits_says_that_what_runs_is_left_alone(here: Any) -> None:
    subject = served()
    running = serve(subject, None, server(server_name(subject)), here).status.conditions[0].message
    idle = serve(subject, None, None, here).status.conditions[0].message
    assert "left as it is" in running
    assert "left as it is" not in idle


# Refusals -----------------------------------------------------------------------------------------------------------


def test_a_refusal_replaces_what_was_to_be_said_and_keeps_what_was_seen() -> None:
    subject = served()
    planned = serve(subject, built("mv-1"), server(server_name(subject))).status
    status = refused(subject, planned, Invalid("1e5000 is too much", reason="QuantityInvalid"), NOW)
    wanted = {"Ready": "False", "Reconciling": "False", "Stalled": "True", "Available": "True"}
    assert state(status.conditions) == wanted
    assert reason(status.conditions, "Stalled") == "QuantityInvalid"
    assert status.url == planned.url


def test_a_refusal_that_time_may_mend_does_not_stall() -> None:
    planned = reconcile(version(), observed(), NOW).status
    status = refused(version(), planned, Unavailable(failure().message, reason="DiskError"), NOW)
    assert state(status.conditions) == {"Ready": "False", "Reconciling": "True", "Stalled": "False"}
    assert status.image_build_phase is None
    assert status.message == failure().message
