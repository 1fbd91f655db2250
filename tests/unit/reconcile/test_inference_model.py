"""What an InferenceModel needs, and what is said of it."""

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
    manifest,
    metadata,
    only_workload,
    reason,
    seconds,
    served,
    server,
    state,
    version,
)

from modelwright.api.fields import Resources
from modelwright.api.inference_model import Auth, InferenceModel, Service
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import Download, Failure, ModelImage, Progress, ServerStatus, VersionStatus
from modelwright.reconcile.inference_model import Observed, reconcile, server_name
from modelwright.reconcile.plan import Plan


def plan(
    subject: InferenceModel, *, seen: ServerStatus | None = None, source: ModelVersion | None = None, here: Any = HERE
) -> Plan:
    if source is None and subject.spec.model_version and not subject.spec.image:
        source = built(subject.spec.model_version)
    return reconcile(subject, Observed(model_version=source, server=seen, capabilities=here), NOW)


def seen_by(subject: InferenceModel, **changes: Any) -> ServerStatus:
    return server(server_name(subject), **changes)


def test_a_model_version_is_served_by_its_digest() -> None:
    wanted = only_workload(plan(served()))
    (one,) = wanted.program.versions
    assert one.source == ModelImage(image=f"127.0.0.1:5000/modelhub/digits@{DIGEST}")
    assert wanted.program.default == "mv-1"
    assert not wanted.program.in_place


def test_an_entry_of_the_manifest_is_downloaded_under_its_own_number() -> None:
    subject = served(model_version="", manifest=manifest("3", "4"), target_version="4", deploy_to_layer="edge")
    wanted = only_workload(plan(subject))
    (one,) = wanted.program.versions
    assert (one.version, one.number) == ("4", 4)
    assert isinstance(one.source, Download)
    assert wanted.program.in_place


def test_a_server_that_is_up_to_date_is_ready_and_has_a_url() -> None:
    status = plan(served(), seen=seen_by(served())).status
    assert status.url == "http://127.0.0.1:40000/v1/models/digits"
    assert status.serving_version == "mv-1"
    assert state(status.conditions) == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "Available": "True",
    }
    assert [entry.source.model_version for entry in status.history] == ["mv-1"]


def test_there_is_no_url_while_nothing_answers() -> None:
    status = plan(served(), seen=seen_by(served(), ready_replicas=0, up_to_date=False, serving_version="")).status
    assert status.url == ""
    assert state(status.conditions)["Available"] == "False"


def test_a_switch_is_reconciling_and_still_available() -> None:
    seen = seen_by(served(), up_to_date=False, versions=(VersionStatus(version="mv-2", phase="Loading"),))
    status = plan(served(model_version="mv-2"), seen=seen).status
    assert state(status.conditions) == {
        "Ready": "False",
        "Reconciling": "True",
        "Stalled": "False",
        "Available": "True",
    }
    assert status.url
    assert "mv-1 goes on serving" in status.conditions[0].message


def test_progress_of_a_download_is_told() -> None:
    fetching = VersionStatus(version="mv-1", phase="Fetching", progress=Progress(1000, 2000))
    seen = seen_by(served(), up_to_date=False, ready_replicas=0, serving_version="", versions=(fetching,))
    status = plan(served(), seen=seen).status
    assert reason(status.conditions) == "Fetching"
    assert "1,000 of 2,000 bytes" in status.conditions[0].message


def test_a_version_that_cannot_be_had_stalls_while_the_old_one_serves() -> None:
    wrong = Failure(reason="ChecksumMismatch", message="sha256 is not what the manifest says")
    seen = seen_by(served(), up_to_date=False, versions=(VersionStatus(version="mv-2", phase="Failed", failure=wrong),))
    status = plan(served(model_version="mv-2"), seen=seen).status
    assert reason(status.conditions, "Stalled") == "ChecksumMismatch"
    assert state(status.conditions)["Available"] == "True"


def test_a_failure_that_time_may_mend_does_not_stall() -> None:
    slow = Failure(reason="DownloadStalled", message="no byte for 30 s", retryable=True)
    seen = seen_by(served(), up_to_date=False, failure=slow)
    assert state(plan(served(), seen=seen).status.conditions)["Stalled"] == "False"


def test_a_model_version_that_is_not_built_yet_leaves_the_server_alone() -> None:
    after = plan(served(), source=version("mv-1"), seen=seen_by(served(), serving_version="mv-0"))
    assert after.workloads == ()
    assert after.keep == {server_name(served())}
    assert reason(after.status.conditions) == "ModelVersionNotReady"
    assert after.status.url


def test_a_missing_model_version_is_waited_for() -> None:
    after = reconcile(served(), Observed(model_version=None, server=None, capabilities=HERE), NOW)
    assert reason(after.status.conditions, "Reconciling") == "ModelVersionNotFound"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"image": "registry.test/serve:1"}, "NeedsContainers"),
        ({"framework_type": "tensorflow"}, "FrameworkUnavailable"),
        ({"framework_type": "caffe"}, "FrameworkUnavailable"),
        ({"auth": Auth(token_secret="t")}, "NotImplemented"),
    ],
)
def test_what_cannot_be_served_here_is_said(changes: dict[str, Any], expected: str) -> None:
    after = plan(served(**changes))
    assert reason(after.status.conditions, "Stalled") == expected
    assert after.workloads == ()


@pytest.mark.parametrize("framework", ["onnx", "sklearn", "tensorflow"])
def test_a_framework_that_an_extra_brings_is_said_with_the_command(framework: str) -> None:
    nothing = msgspec.structs.replace(HERE, frameworks=frozenset())
    after = plan(served(framework_type=framework), here=nothing)
    message = next(each.message for each in after.status.conditions if each.type == "Stalled")
    assert f'pip install "modelwright[{framework}]"' in message


def test_no_replicas_is_ready_and_not_available() -> None:
    seen = seen_by(served(), replicas=0, ready_replicas=0, serving_version="")
    status = plan(served(replicas=0), seen=seen).status
    assert reason(status.conditions) == "ScaledToZero"
    assert state(status.conditions)["Available"] == "False"


def test_the_edge_runs_one_replica_and_says_so() -> None:
    after = plan(served(deploy_to_layer="edge", node_name="laptop", replicas=3))
    assert only_workload(after).replicas == 1
    assert state(after.status.conditions)["ReplicasLimited"] == "True"


def test_the_history_keeps_the_last_ten_sources() -> None:
    subject = served()
    for number in range(12):
        subject = msgspec.structs.replace(
            subject, spec=msgspec.structs.replace(subject.spec, model_version=f"mv-{number}")
        )
        after = plan(subject, seen=seen_by(subject, serving_version=f"mv-{number}"))
        subject = msgspec.structs.replace(subject, status=after.status)
    assert [entry.source.model_version for entry in subject.status.history] == [f"mv-{n}" for n in range(2, 12)]


def test_a_version_keeps_its_number() -> None:
    subject = served(model_version="blue")
    for name in ("blue", "green", "blue"):
        subject = msgspec.structs.replace(subject, spec=msgspec.structs.replace(subject.spec, model_version=name))
        subject = msgspec.structs.replace(subject, status=plan(subject).status)
    assert {entry.version: entry.number for entry in subject.status.versions} == {"blue": 1, "green": 2}


def test_a_port_that_is_asked_for_is_used_and_a_cluster_has_its_own_default() -> None:
    assert only_workload(plan(served(serving_port=9000))).port == 9000
    assert only_workload(plan(served())).port == 0
    assert only_workload(plan(served(), here=CLUSTER)).port == 8501


def test_quantities_are_text() -> None:
    after = plan(served(resources=Resources(limits={"cpu": 2, "memory": "1Gi"})))
    assert only_workload(after).resources.limits == {"cpu": "2", "memory": "1Gi"}


def test_what_means_nothing_on_one_machine_is_said_once() -> None:
    subject = served(
        node_name="precision-5820",
        service=Service(type="NodePort"),
        metadata={"generation": 2},
    )
    told = [notice.reason for notice in plan(subject).notices]
    assert told == ["NodeIsThisMachine", "ServiceNotUsed"]
    seen = msgspec.structs.replace(subject, status=plan(subject).status)
    assert plan(seen).notices == ()


def test_nothing_differs_the_second_time() -> None:
    first = plan(served(), seen=seen_by(served())).status
    subject = msgspec.structs.replace(served(), status=first)
    later = reconcile(
        subject,
        Observed(model_version=built(), server=seen_by(served()), capabilities=HERE),
        NOW + seconds(60),
    )
    assert later.status == first


def test_one_that_is_being_deleted_runs_nothing() -> None:
    subject = msgspec.structs.replace(served(), metadata=metadata("digits", deletion_timestamp=NOW))
    assert plan(subject) == Plan()
