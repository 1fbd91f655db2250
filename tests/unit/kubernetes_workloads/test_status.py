"""What is said of a build, by what its Job and its Pod say."""

from __future__ import annotations

import pytest
from tests.unit.kubernetes_workloads.support import (
    JSON,
    NOW,
    RESULT,
    a_job,
    a_pod,
    at,
    condition,
    container,
    failing,
    terminated,
)

from modelwright.adapters.kubernetes.workloads.kinds import Job, Pod
from modelwright.adapters.kubernetes.workloads.status import awaits_pod, lost, pod_of, task_status
from modelwright.ports.job import Report
from modelwright.ports.workloads import Failure, Progress, TaskStatus

DONE, FAILED = condition("Complete"), condition("Failed", "BackoffLimitExceeded")
DISRUPTED = [condition("DisruptionTarget", "EvictionByEvictionAPI")]
RUNNING = container(running={})
GOOD = terminated(message=Report(result=RESULT))


def of(job: Job | None, pod: Pod | None, hint: Failure | None = None) -> TaskStatus:
    return task_status("b", job, pod, NOW, progress=Progress(1, 2), hint=hint)


def reason_of(status: TaskStatus) -> str:
    return status.failure.reason if status.failure is not None else ""


@pytest.mark.parametrize(
    ("job", "pod", "phase"),
    [
        (None, None, "Pending"),
        (a_job(), None, "Pending"),
        (a_job(), a_pod("Pending", node=""), "Pending"),
        (a_job(), a_pod("Pending", containerStatuses=[container(waiting={"reason": "ContainerCreating"})]), "Pending"),
        (a_job(), a_pod("Running", containerStatuses=[RUNNING]), "Running"),
        (a_job(), a_pod("Pending", initContainerStatuses=[container("prepare", running={})]), "Running"),
        (a_job(), a_pod("Failed", conditions=DISRUPTED), "Pending"),
        (a_job(DONE), None, "Running"),
        (a_job(FAILED), None, "Running"),
        (a_job(DONE), a_pod("Running", containerStatuses=[RUNNING]), "Running"),
        (a_job(), a_pod("Succeeded", containerStatuses=[GOOD]), "Succeeded"),
        (a_job(DONE), a_pod("Succeeded", containerStatuses=[GOOD]), "Succeeded"),
        (a_job(), a_pod("Failed", containerStatuses=[terminated(1, failing())]), "Failed"),
        (a_job(FAILED), a_pod("Failed", conditions=DISRUPTED), "Failed"),
    ],
)
def test_the_phase_of_a_build(job: Job | None, pod: Pod | None, phase: str) -> None:
    assert of(job, pod).phase == phase


def test_a_build_that_succeeded_has_its_result_and_its_time() -> None:
    status = of(a_job(), a_pod("Succeeded", containerStatuses=[GOOD]))
    assert (status.result, status.node_name, status.failure) == (RESULT, "cloud-0", None)
    assert status.finished_at is not None
    assert status == of(a_job(DONE), a_pod("Succeeded", containerStatuses=[GOOD]))


def test_a_build_that_runs_shows_its_progress_and_node() -> None:
    status = of(a_job(), a_pod("Running", containerStatuses=[RUNNING]))
    assert (status.progress, status.node_name) == (Progress(1, 2), "cloud-0")


OOM, START = terminated(137, reason="OOMKilled"), terminated(128, "no such file", "StartError")
DENIED = "error checking push permissions: POST https://hub/v2/: DENIED: requested access to the resource is denied"
LOGIN = "checking push permission: GET https://hub/v2/: UNAUTHORIZED: authentication required"
UNTRUSTED = "tls: failed to verify certificate: x509: certificate signed by unknown authority"


@pytest.mark.parametrize(
    ("pod", "reason", "retryable"),
    [
        ({"containerStatuses": [terminated(1, failing())]}, "StorageEmpty", False),
        ({"containerStatuses": [terminated(1, failing("RegistrySlow", retryable=True))]}, "RegistrySlow", True),
        ({"containerStatuses": [OOM]}, "OOMKilled", True),
        ({"containerStatuses": [START]}, "ContainerNotStarted", True),
        ({"containerStatuses": [terminated(1, "Traceback: boom")]}, "BuildFailed", True),
        ({"containerStatuses": [terminated(1)]}, "BuildFailed", True),
        ({"containerStatuses": [terminated(1, '{"result": 3}')]}, "BuildFailed", True),
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, "Evicted", True),
        ({}, "BuildFailed", True),
        (
            {
                "initContainerStatuses": [terminated(1, failing("ImageTagTaken"), name="prepare")],
                "containerStatuses": [container("finish", waiting={"reason": "PodInitializing"})],
            },
            "ImageTagTaken",
            False,
        ),
        ({"initContainerStatuses": [terminated(1, DENIED, name="kaniko")]}, "RegistryDenied", False),
        ({"initContainerStatuses": [terminated(1, LOGIN, name="kaniko")]}, "RegistryUnauthorized", False),
        ({"initContainerStatuses": [terminated(1, UNTRUSTED, name="kaniko")]}, "RegistryCertificateInvalid", False),
        ({"initContainerStatuses": [terminated(1, "no space left", name="kaniko")]}, "BuildFailed", True),
        ({"initContainerStatuses": [terminated(0, name="prepare"), OOM]}, "OOMKilled", True),
    ],
)
def test_why_a_build_has_failed(pod: JSON, reason: str, *, retryable: bool) -> None:
    status = of(a_job(), a_pod("Failed", **pod))
    assert status.phase == "Failed"
    assert status.failure is not None
    assert (status.failure.reason, status.failure.retryable) == (reason, retryable)
    assert status.failure.message
    assert status.finished_at is not None


def test_the_end_of_a_log_is_shown_where_there_is_no_report() -> None:
    status = of(a_job(), a_pod("Failed", containerStatuses=[terminated(2, f"{'x' * 3000}\nno luck")]))
    assert status.failure is not None
    assert "exit code 2" in status.failure.message
    assert status.failure.message.endswith("no luck")
    assert len(status.failure.message) < 2000


@pytest.mark.parametrize("reason", ["", "two words", "a\nb", "X" * 101, "é"])
def test_a_reason_that_is_none_is_not_taken_over(reason: str) -> None:
    told = Report(failure=Failure(reason, "nothing there"))
    status = of(a_job(), a_pod("Failed", containerStatuses=[terminated(1, told)]))
    assert reason_of(status) == "BuildFailed"


@pytest.mark.parametrize("message", [Report(failure=Failure("Bad", "a\x1b[2J\x9bb")), "a\x1b[2J\x9bb"])
def test_what_a_build_says_moves_no_cursor(message: str | Report) -> None:
    status = of(a_job(), a_pod("Failed", containerStatuses=[terminated(1, message)]))
    assert status.failure is not None
    assert status.failure.message.endswith("a\ufffd[2J\ufffdb")


def test_a_job_that_somebody_suspends_says_so() -> None:
    status = of(a_job(condition("Suspended")), None)
    assert (status.phase, reason_of(status)) == ("Pending", "JobSuspended")
    assert status.failure is not None
    assert "kubectl patch job b -n vision" in status.failure.message
    assert of(a_job(condition("Suspended", status="False")), None).failure is None


def test_a_deadline_is_told_although_the_pod_is_gone() -> None:
    job = a_job(condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline"))
    for pod in (None, a_pod("Failed", containerStatuses=[terminated(1, failing("Interrupted", retryable=True))])):
        status = of(job, pod)
        assert (status.phase, reason_of(status)) == ("Failed", "DeadlineExceeded")
        assert status.failure is not None
        assert not status.failure.retryable


def test_a_pod_that_was_made_to_end_waits_for_the_word_of_its_job() -> None:
    pod = a_pod("Failed", going=True, containerStatuses=[terminated(1, failing("Interrupted", retryable=True))])
    assert of(a_job(), pod).phase == "Running"
    assert reason_of(of(a_job(FAILED), pod)) == "Interrupted"


DEEP = f'{{"x":{"[" * 4000}'


@pytest.mark.parametrize("message", ["", "not ours", '{"failure": null}', DEEP, "\x00\x1b[2J"])
def test_a_success_without_a_result_is_tried_again(message: str) -> None:
    status = of(a_job(DONE), a_pod("Succeeded", containerStatuses=[terminated(message=message)]))
    assert (status.phase, reason_of(status)) == ("Failed", "ResultLost")
    assert status.failure is not None
    assert status.failure.retryable


def test_an_ended_job_whose_pod_is_not_seen_to_is_asked_after() -> None:
    running = a_pod("Running", containerStatuses=[RUNNING])
    assert awaits_pod(a_job(DONE), None)
    assert awaits_pod(a_job(DONE), running)
    assert not awaits_pod(a_job(), None)
    assert not awaits_pod(a_job(DONE), a_pod("Succeeded", containerStatuses=[GOOD]))
    assert not awaits_pod(a_job(condition("Failed", "DeadlineExceeded")), None)
    status = lost("b", a_job(FAILED))
    assert (status.phase, reason_of(status)) == ("Failed", "ResultLost")
    assert status.finished_at is not None


BACK_OFF = 'Back-off pulling image "hub/a:1": ErrImagePull: rpc error: code = NotFound desc = not found'
UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: not helpful"
NO_CLAIM = '0/2 nodes are available: persistentvolumeclaim "theirs" not found'
NO_ROOM = "0/2 nodes are available: 2 Insufficient memory"


def unscheduled(message: str) -> list[JSON]:
    return [condition("PodScheduled", "Unschedulable", message, "False")]


@pytest.mark.parametrize(
    ("pod", "age", "reason"),
    [
        ({"containerStatuses": [container(waiting={"reason": "ErrImagePull", "message": "x"})]}, 1, "ImagePullFailed"),
        ({"containerStatuses": [container(waiting={"reason": "InvalidImageName"})]}, 1, "ImagePullFailed"),
        ({"initContainerStatuses": [container("prepare", waiting={"reason": "ImagePullBackOff"})]}, 1,
         "ImagePullFailed"),
        ({"containerStatuses": [container(waiting={"reason": "CreateContainerConfigError"})]}, 1,
         "ContainerNotStarted"),
        ({"containerStatuses": [container(waiting={"reason": "ContainerCreating"})]}, 600, ""),
        ({"conditions": unscheduled(NO_ROOM)}, 2, ""),
        ({"conditions": unscheduled(NO_ROOM)}, 20, "Unschedulable"),
        ({"conditions": unscheduled(NO_CLAIM)}, 20, "ClaimNotFound"),
        ({"conditions": unscheduled(UNBOUND)}, 20, ""),
        ({"conditions": unscheduled(UNBOUND)}, 40, "VolumeNotBound"),
    ],
)  # fmt: skip
def test_what_a_build_waits_for(pod: JSON, age: float, reason: str) -> None:
    status = of(a_job(), a_pod("Pending", age=age, **pod))
    assert (status.phase, reason_of(status)) == ("Pending", reason)


@pytest.mark.parametrize(("seconds", "reason"), [(5, ""), (40, "VolumeNotBound")])
def test_a_claim_without_a_volume_is_told_when_it_has_been_so_for_a_while(seconds: float, reason: str) -> None:
    """The Pod has waited for the claim itself before, for which nobody binds a volume sooner."""
    writes = [{"time": at(600)}, {"subresource": "status", "time": at(seconds)}]
    status = of(a_job(), a_pod("Pending", age=600, writes=writes, conditions=unscheduled(UNBOUND)))
    assert reason_of(status) == reason


def test_an_image_that_cannot_be_pulled_is_told_in_one_way() -> None:
    tried = {"reason": "ErrImagePull", "message": "rpc error: code = NotFound desc = not found"}
    backs_off = {"reason": "ImagePullBackOff", "message": BACK_OFF}
    first, second = (
        of(a_job(), a_pod("Pending", containerStatuses=[container(waiting=w)])) for w in (tried, backs_off)
    )
    assert first == second


@pytest.mark.parametrize(("name", "setting"), [("build", "build.image"), ("kaniko", "build.kanikoImage")])
def test_an_image_that_cannot_be_pulled_is_told_with_the_setting_that_names_it(name: str, setting: str) -> None:
    waiting = container(name, waiting={"reason": "ErrImagePull", "message": "not found"})
    failure = of(a_job(), a_pod("Pending", containerStatuses=[waiting])).failure
    assert failure is not None
    assert f"the Helm values {setting} and build.imagePullSecrets" in failure.message


def test_a_later_container_that_cannot_start_is_told_although_an_earlier_one_has_run() -> None:
    done = container("prepare", terminated={"exitCode": 0})
    kaniko = container("kaniko", waiting={"reason": "ImagePullBackOff", "message": BACK_OFF})
    status = of(a_job(), a_pod("Pending", initContainerStatuses=[done, kaniko]))
    assert (status.phase, reason_of(status)) == ("Pending", "ImagePullFailed")


def test_what_was_found_out_elsewhere_is_told_while_it_waits() -> None:
    hint = Failure("MountFailed", "no such folder", retryable=True)
    creating = a_pod("Pending", containerStatuses=[container(waiting={"reason": "ContainerCreating"})])
    assert of(a_job(), creating, hint).failure == hint
    assert of(a_job(), None, hint).failure == hint
    assert of(a_job(), a_pod("Running", containerStatuses=[RUNNING]), hint).failure is None


def test_a_node_that_does_not_answer_is_waited_for() -> None:
    conditions = [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]
    status = of(a_job(), a_pod("Running", conditions=conditions, containerStatuses=[RUNNING]))
    assert (status.phase, reason_of(status)) == ("Pending", "NodeLost")


def test_the_newest_pod_speaks_unless_one_has_succeeded() -> None:
    old, new = a_pod("Failed", age=60, name="old", conditions=DISRUPTED), a_pod("Running", age=5, name="new")
    assert pod_of([]) is None
    assert pod_of([new, old]) == pod_of([old, new]) == new
    done = a_pod("Succeeded", age=90, name="done")
    assert pod_of([old, done, new]) == done
