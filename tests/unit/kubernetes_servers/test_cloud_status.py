"""How a Server in the cloud is doing, by what is seen of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kubernetes_servers.cloud_support import (
    JSON,
    READY,
    RUNNING,
    SETTINGS,
    a_pod,
    a_ready_pod,
    a_server,
    condition,
    ended,
    model_server,
    rendered,
    seen,
    stored,
    stored_service,
    waits,
)

from modelwright.adapters.kubernetes.servers import cloud_objects as render
from modelwright.adapters.kubernetes.servers.cloud_status import Hint, server_status
from modelwright.adapters.kubernetes.servers.server_events import secret_failure
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.job import Report
from modelwright.ports.workloads import Container, Exposure, Failure, Progress, ServerStatus

OLD = rendered(a_server(model_server(version="v1")))
NEW = rendered(a_server(model_server(version="v2")))
SERVICE = render.service(a_server(), "resnet")
UNSCHEDULABLE = condition("PodScheduled", "False", "Unschedulable")
LOST = [condition("Ready", "False"), condition("ContainersReady")]
GATED = [condition("Ready", "False", "ReadinessGatesNotReady"), condition("ContainersReady")]
MISMATCH = Failure(reason="ChecksumMismatch", message="it is another file")


def status_of(*pods: Pod, body: JSON = NEW, service: JSON | None = SERVICE, **more: Any) -> ServerStatus:
    there = stored_service(service, node_port=30001) if service is not None else None
    return server_status("resnet-serve-1", seen(stored(body, **more), *pods, service=there))


def reported(failure: Failure) -> JSON:
    return ended(1, msgspec.json.encode(Report(failure=failure)).decode())


# Rollout ------------------------------------------------------------------------------------------------------------


def test_it_is_up_to_date_when_all_pods_are_new_and_ready() -> None:
    status = status_of(a_ready_pod(NEW))
    assert (status.replicas, status.ready_replicas, status.serving_version) == (1, 1, "v2")
    assert status.up_to_date
    assert status.failure is None
    assert [version.phase for version in status.versions] == ["Ready"]


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (a_ready_pod(OLD),),
        (a_ready_pod(NEW), a_ready_pod(OLD, name="b")),
        (a_ready_pod(NEW), a_ready_pod(NEW, name="b")),
        (a_ready_pod(NEW), a_ready_pod(OLD, name="b", going=True)),
        (a_pod(NEW, server=RUNNING),),
    ],
)
def test_it_is_not_up_to_date_while_anything_else_runs_or_is_not_ready(pods: tuple[Pod, ...]) -> None:
    assert not status_of(*pods).up_to_date


def test_it_is_not_up_to_date_without_its_service() -> None:
    assert not status_of(a_ready_pod(NEW), service=None).up_to_date


def test_a_pod_that_ends_on_a_lost_node_holds_nothing_up() -> None:
    lost = a_pod(OLD, name="b", going=True, conditions=LOST)
    assert status_of(a_ready_pod(NEW), lost).up_to_date


def test_no_version_is_served_while_two_are() -> None:
    status = status_of(a_ready_pod(NEW), a_ready_pod(OLD, name="b"))
    assert (status.serving_version, status.ready_replicas) == ("", 2)


def test_the_old_version_serves_while_the_new_one_fails() -> None:
    failing = a_pod(NEW, name="b", fetch={"waiting": {"reason": "CrashLoopBackOff"}})
    status = status_of(a_ready_pod(OLD), failing)
    assert (status.serving_version, status.ready_replicas, status.up_to_date) == ("v1", 1, False)


def test_nothing_is_wanted_and_nothing_runs() -> None:
    status = status_of(body=rendered(a_server(replicas=0)))
    assert (status.up_to_date, status.replicas, status.host, status.versions) == (True, 0, "", ())


@pytest.mark.parametrize(
    ("pod", "phase"),
    [
        (a_pod(NEW), "Pending"),
        (a_pod(NEW, fetch=RUNNING), "Fetching"),
        (a_pod(NEW, fetch=ended(0, reason="Completed"), server=waits("PodInitializing")), "Pending"),
        (a_pod(NEW, fetch=ended(0, reason="Completed"), server=RUNNING), "Loading"),
        (a_pod(NEW, fetch=reported(MISMATCH)), "Failed"),
    ],
)
def test_a_version_is_as_far_as_its_pods_say(pod: Pod, phase: str) -> None:
    assert [version.phase for version in status_of(pod).versions] == [phase]


def test_progress_is_that_of_the_furthest_pod() -> None:
    pods = (a_pod(NEW, fetch=RUNNING), a_pod(NEW, name="b", fetch=RUNNING))
    hints = {"a": Hint(progress=Progress(1, 9)), "b": Hint(progress=Progress(5, 9))}
    (version,) = server_status("s", seen(stored(NEW), *pods, hints=hints)).versions
    assert version.progress == Progress(5, 9)


# Failures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "reason", "retryable"),
    [
        (a_pod(NEW, fetch=reported(MISMATCH)), "ChecksumMismatch", False),
        (a_pod(NEW, server=waits("CrashLoopBackOff"), last=reported(MISMATCH)), "ChecksumMismatch", False),
        (a_pod(NEW, server=RUNNING, last=reported(MISMATCH)), "ChecksumMismatch", False),
        (a_pod(NEW, server=waits("CrashLoopBackOff"), last=ended(137, reason="OOMKilled")), "OOMKilled", False),
        (a_pod(NEW, fetch=ended(137, reason="OOMKilled")), "OOMKilled", True),
        (a_pod(NEW, server=ended(3, "no such file")), "ServerExited", True),
        (a_pod(NEW, server=ended(3, '{"failure": {"reason": "not a word", "message": "m"}}')), "ServerExited", True),
        (a_pod(NEW, server=ended(128, "exec failed", reason="StartError")), "ContainerNotStarted", True),
        (a_pod(NEW, server=waits("ImagePullBackOff", "not found")), "ImagePullFailed", True),
        (a_pod(NEW, server=waits("CreateContainerConfigError", "image will run as root")), "ContainerNotStarted", True),
        (a_pod(NEW, phase="Pending", conditions=[UNSCHEDULABLE]), "Unschedulable", True),
        (a_pod(NEW, server=RUNNING, conditions=LOST), "NodeLost", True),
    ],
)  # fmt: skip
def test_why_a_pod_is_not_ready(pod: Pod, reason: str, retryable: bool) -> None:
    failure = status_of(pod).failure
    assert failure is not None
    assert (failure.reason, failure.retryable) == (reason, retryable)


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(NEW, fetch=ended(0, reason="Completed"), server=waits("PodInitializing")),
        a_pod(NEW, server=waits("ContainerCreating")),
        a_pod(NEW, server=RUNNING, last=ended(0, reason="Completed")),
        a_pod(NEW, age=2, phase="Pending", conditions=[UNSCHEDULABLE]),
        a_pod(NEW, server=RUNNING, conditions=GATED),
    ],
)
def test_what_is_in_order_is_no_failure(pod: Pod) -> None:
    assert status_of(pod).failure is None


def test_a_pod_that_has_recovered_has_not_failed() -> None:
    pod = a_pod(NEW, server=RUNNING, last=ended(137, reason="OOMKilled"), conditions=READY)
    status = status_of(pod)
    assert status.failure is None
    assert status.up_to_date
    assert status.restarts == 1


def test_a_message_cannot_move_the_cursor() -> None:
    failure = status_of(a_pod(NEW, server=ended(1, "\x1b[2J gone"))).failure
    assert failure is not None
    assert "\x1b" not in failure.message


def test_the_version_is_said_once() -> None:
    told = Failure(reason="ModelInvalid", message="version v2: it cannot be loaded")
    failure = status_of(a_pod(NEW, server=reported(told))).failure
    assert failure is not None
    assert failure.message == "it cannot be loaded"


def refused(message: str) -> ServerStatus:
    return status_of(body=NEW, conditions=[condition("ReplicaFailure", "True", "FailedCreate", message)])


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        (
            'pods "a-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true',
            "PodSecurityForbids",
            "pod-security.kubernetes.io/enforce=",
        ),
        ('pods "a-1" is forbidden: exceeded quota: q, requested: pods=1', "QuotaExceeded", "exceeded quota: q"),
        ("Internal error occurred: webhook", "PodNotCreated", "webhook"),
    ],
)  # fmt: skip
def test_why_no_pod_is_made(message: str, reason: str, words: str) -> None:
    failure = refused(message).failure
    assert failure is not None
    assert failure.reason == reason
    assert words in failure.message
    assert "a-1" not in failure.message


def test_a_rollout_that_takes_too_long_is_said_if_nothing_else_is_known() -> None:
    late = condition("Progressing", "False", "ProgressDeadlineExceeded")
    status = status_of(a_pod(NEW, server=RUNNING), conditions=[late])
    assert status.failure is not None
    assert status.failure.reason == "ProgressDeadlineExceeded"
    crashed = status_of(a_pod(NEW, server=ended(3, "no such file")), conditions=[late]).failure
    assert crashed is not None
    assert crashed.reason == "ServerExited"


def test_what_was_said_of_a_former_deployment_is_not_believed() -> None:
    late = condition("Progressing", "False", "ProgressDeadlineExceeded")
    deployment = stored(NEW, generation=3, observedGeneration=2, conditions=[late])
    assert server_status("s", seen(deployment, a_pod(NEW, server=RUNNING))).failure is None


def test_an_event_says_what_the_pod_does_not() -> None:
    failure = Failure(reason="MountFailed", message="no such Secret", retryable=True)
    pod = a_pod(NEW, server=waits("ContainerCreating"))
    status = server_status("s", seen(stored(NEW), pod, hints={"a": Hint(failure=failure)}))
    assert status.failure == failure


def test_an_event_says_nothing_of_a_pod_that_has_begun_since() -> None:
    failure = Failure(reason="SecretNotFound", message="no such Secret", retryable=True)
    pod = a_pod(NEW, server=RUNNING)
    assert server_status("s", seen(stored(NEW), pod, hints={"a": Hint(failure=failure)})).failure is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('MountVolume.SetUp failed for volume "token" : secret "tok" not found', "no Secret tok (auth.tokenSecret)"),
        ('MountVolume.SetUp failed for volume "tls" : secret "c" not found', "kubectl create secret tls c"),
        (
            'MountVolume.SetUp failed for volume "tls" : references non-existent secret key: tls.key',
            "tls.secret has no key tls.key",
        ),
    ],
)
def test_a_secret_that_is_missing_is_said_with_how_to_make_it(said: str, words: str) -> None:
    failure = secret_failure(said, "vision")
    assert failure is not None
    assert (failure.reason, failure.retryable) == ("SecretNotFound", True)
    assert words in failure.message


@pytest.mark.parametrize(
    "said",
    [
        'MountVolume.SetUp failed for volume "models" : no space',
        'MountVolume.SetUp failed for volume "tls" : timeout',
    ],
)
def test_other_mounts_are_told_otherwise(said: str) -> None:
    assert secret_failure(said, "vision") is None


# Address ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exposure", "node_port", "ingress", "where"),
    [
        (Exposure(), 30001, [{"ip": "198.51.100.7"}], ("198.51.100.7", 8501, True)),
        (Exposure(), 30001, [{"hostname": "lb.example.com"}], ("lb.example.com", 8501, True)),
        (Exposure(), 30001, None, ("192.0.2.10", 30001, True)),
        (Exposure(), 30001, [{}], ("192.0.2.10", 30001, True)),
        (Exposure(), 0, None, ("resnet.vision.svc.cluster.local", 8501, False)),
        (Exposure(type="NodePort"), 30001, [{"ip": "198.51.100.7"}], ("192.0.2.10", 30001, True)),
        (Exposure(type="ClusterIP"), 0, None, ("resnet.vision.svc.cluster.local", 8501, False)),
    ],
)
def test_where_it_is_reached(
    exposure: Exposure, node_port: int, ingress: list[JSON] | None, where: tuple[str, int, bool]
) -> None:
    body = render.service(a_server(exposure=exposure), "resnet")
    service = stored_service(body, node_port=node_port, ingress=ingress)
    pods = (a_pod(NEW, name="b", node="cloud-1", server=RUNNING), a_ready_pod(NEW))
    status = server_status("s", seen(stored(NEW), *pods, service=service))
    assert (status.host, status.port, status.exposed) == where


def test_no_address_is_said_while_nothing_is_ready() -> None:
    status = status_of(a_pod(NEW, server=RUNNING))
    assert (status.host, status.port) == ("", 0)


def test_an_image_serves_no_version() -> None:
    body = rendered(a_server(Container(image="hub.example.com/mine:1")))
    status = status_of(a_ready_pod(body), body=body)
    assert (status.serving_version, status.up_to_date, status.versions) == ("", True, ())


# Whatever it sees ---------------------------------------------------------------------------------------------------

STATES = st.sampled_from(
    [None, RUNNING, waits("CrashLoopBackOff"), waits("ImagePullBackOff"), ended(0), ended(1, "x"), reported(MISMATCH)]
)
PODS = st.builds(
    lambda name, body, fetch, server, last, ready, going: a_pod(
        body, name=name, fetch=fetch, server=server, last=last, conditions=READY if ready else [], going=going
    ),
    st.uuids().map(str),
    st.sampled_from([OLD, NEW]),
    STATES,
    STATES,
    STATES,
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=60)
@given(st.lists(PODS, max_size=4))
def test_what_is_said_never_contradicts_itself(pods: list[Pod]) -> None:
    status = status_of(*pods)
    assert status.ready_replicas <= status.replicas <= len(pods)
    assert bool(status.host) == (status.ready_replicas > 0)
    assert status.serving_version in ("", "v1", "v2")
    if status.up_to_date:
        assert (status.serving_version, status.failure, status.ready_replicas) == ("v2", None, 1)
    if status.serving_version:
        assert status.ready_replicas
    assert SETTINGS.cluster_domain == "cluster.local"
