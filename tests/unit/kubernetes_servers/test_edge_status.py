"""How a server at the edge is said to be doing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_servers.edge_support import (
    JSON,
    NODE,
    NOW,
    READY,
    SETTINGS,
    V1,
    a_model,
    condition,
    container,
    pod_of,
)

from modelwright.adapters.kubernetes.servers import edge_faults
from modelwright.adapters.kubernetes.servers.edge_model import render
from modelwright.adapters.kubernetes.servers.edge_status import (
    DEFERRED,
    Sight,
    server_status,
    settled,
    unread_failure,
)
from modelwright.adapters.kubernetes.servers.gateway_pod import render as render_gateway
from modelwright.adapters.kubernetes.servers.gateway_state import GatewayState, ModelState
from modelwright.adapters.kubernetes.servers.keeper_lines import digest
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.errors import Conflict, Forbidden, Invalid, ModelwrightError
from modelwright.ports.serving import GATEWAY_ANNOTATION, TASK_ANNOTATION, KeeperState
from modelwright.ports.workloads import (
    AskedModel,
    Container,
    Failure,
    Gateway,
    Kept,
    ServerStatus,
    VersionStatus,
)

SERVER = a_model()
RENDERED = render(SERVER, NODE.name, SETTINGS)
TASK = digest(RENDERED.told[TASK_ANNOTATION])
DONE = KeeperState(task=TASK, serving="v1", settled=True, versions=(VersionStatus(version="v1", phase="Ready"),))
RUNS = pod_of(RENDERED, conditions=READY, hostIP="192.0.2.7")
V2 = msgspec.structs.replace(V1, version="v2", number=2)
GATEWAY = msgspec.structs.replace(SERVER, program=Gateway(name="digits", kept=Kept("vision/digits")), port=8500)
JOINS = render_gateway(GATEWAY, NODE.name, SETTINGS)


def status(pod: Pod | None, state: Any = DONE, **more: Any) -> ServerStatus:
    """What is said of a model that was applied."""
    known = {"server": SERVER, "rendered": RENDERED, "node": NODE, **more}
    return server_status(Sight(name="resnet-serve", pod=pod, now=NOW, state=state, **known))


def test_what_serves_as_it_should_is_up_to_date() -> None:
    seen = status(RUNS)
    assert (seen.host, seen.port, seen.node_name) == ("192.0.2.7", 8501, "edge-0")
    assert (seen.replicas, seen.ready_replicas, seen.serving_version, seen.up_to_date) == (1, 1, "v1", True)
    assert seen.versions == DONE.versions
    assert seen.failure is None


def test_what_waits_to_be_made_anew_for_the_operators_sake_is_as_it_should_be_until_then() -> None:
    upgraded = render(SERVER, NODE.name, msgspec.structs.replace(SETTINGS, agent_image="hub.example/op:2"))
    assert not status(RUNS, rendered=upgraded).up_to_date
    seen = status(RUNS, rendered=upgraded, deferred=True)
    assert (seen.up_to_date, seen.ready_replicas, seen.notices) == (True, 1, (DEFERRED,))
    other = render(a_model("onnx", V2), NODE.name, SETTINGS)
    assert not status(RUNS, rendered=other, deferred=True).up_to_date


@pytest.mark.parametrize(
    ("pod", "more"),
    [
        (pod_of(RENDERED, conditions=[condition("Ready", "False")]), {}),
        (pod_of(RENDERED, conditions=READY, going=True), {}),
        (RUNS, {"state": None}),
        (RUNS, {"state": msgspec.structs.replace(DONE, settled=False)}),
        (RUNS, {"state": msgspec.structs.replace(DONE, task="another")}),
        (RUNS, {"server": None, "rendered": None}),
        (RUNS, {"rendered": render(a_model(port=8600), NODE.name, SETTINGS)}),
        (RUNS, {"rendered": render(a_model("onnx", V2), NODE.name, SETTINGS)}),
        (RUNS, {"node": msgspec.structs.replace(NODE, ready="Unknown")}),
        (RUNS, {"failure": Failure(reason="NodeNotFound", message="", retryable=True)}),
        (None, {}),
    ],
)
def test_what_is_not_as_it_should_be_is_not_up_to_date(pod: Pod | None, more: JSON) -> None:
    assert not status(pod, **{"state": DONE, **more}).up_to_date


def test_a_line_about_a_former_task_tells_what_answers_and_nothing_of_the_new_one() -> None:
    wanted = a_model("onnx", V2)
    rendered = render(wanted, NODE.name, SETTINGS)
    told = pod_of(rendered, conditions=READY)
    seen = status(told, server=wanted, rendered=rendered)
    assert (seen.serving_version, seen.up_to_date) == ("v1", False)
    assert seen.versions == (VersionStatus(version="v2", phase="Pending"),)
    assert not settled(told, DONE)


def test_before_anything_is_applied_the_pod_itself_says_what_it_holds() -> None:
    seen = status(RUNS, server=None, rendered=None)
    assert (seen.serving_version, seen.versions, seen.port) == ("v1", DONE.versions, 8501)


def test_scaled_to_zero_it_is_up_to_date_once_the_pod_is_gone() -> None:
    stopped = a_model(replicas=0)
    assert status(None, None, server=stopped, rendered=None).up_to_date
    assert not status(pod_of(RENDERED, going=True), None, server=stopped, rendered=None).up_to_date


def test_an_image_is_what_it_is() -> None:
    server = a_model(program=Container(image="hub.example/mine:1"))
    rendered = render(server, NODE.name, SETTINGS)
    seen = status(pod_of(rendered, conditions=READY), None, server=server, rendered=rendered)
    assert (seen.up_to_date, seen.serving_version, seen.versions) == (True, "", ())


def test_a_log_that_cannot_be_read_is_told_only_where_nothing_else_is_known() -> None:
    unread = unread_failure("no answer")
    assert status(RUNS, None, unread=unread).failure == unread
    assert status(RUNS, unread=unread).failure is None
    assert status(pod_of(RENDERED), None, unread=unread).failure is None


# Gateways -----------------------------------------------------------------------------------------------------------


def test_a_gateway_is_up_to_date_once_it_runs_the_configuration_that_it_was_told() -> None:
    pod = pod_of(JOINS, conditions=READY)
    known: JSON = {"server": GATEWAY, "rendered": JOINS, "kept_path": "/var/lib/modelwright/kept/vision/digits"}
    assert not status(pod, None, **known).up_to_date
    edge = ModelState(state="failing", reason="NotReady", message="503")
    state = GatewayState(config_digest=digest(JOINS.told[GATEWAY_ANNOTATION]), kept_bytes=12, edge=edge)
    seen = status(pod, state, **known)
    assert (seen.up_to_date, seen.kept_bytes, seen.serving_version, seen.versions) == (True, 12, "", ())
    assert seen.kept_path == "/var/lib/modelwright/kept/vision/digits"
    failure = Failure(reason="NotReady", message="503", retryable=True)
    assert seen.asked == (AskedModel(side="edge", failure=failure),)
    refuses = GatewayState(config_digest="former", reason="ConfigInvalid", message="wrong")
    seen = status(pod, refuses, **known)
    assert not seen.up_to_date
    assert seen.failure == Failure(reason="ConfigInvalid", message="wrong")


# What stands against it ---------------------------------------------------------------------------------------------

LATE = condition("PodScheduled", "False", "Unschedulable", "0/2 nodes: 1 node(s) didn't have free ports for the ...")
FULL = condition("PodScheduled", "False", "Unschedulable", "0/2 nodes: Insufficient memory")
PULL = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x": ErrImagePull: not found'}
LOOP = {"reason": "CrashLoopBackOff", "message": "back-off"}
REPORT = '{"failure":{"reason":"PortInUse","message":"cannot listen on 0.0.0.0:8501"}}'


def over(message: str = "", reason: str = "Error", code: int = 1) -> JSON:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


@pytest.mark.parametrize(
    ("pod", "reason", "said"),
    [
        (pod_of(RENDERED, scheduled=False, conditions=[LATE]), "PortInUse", "port 8501 on the node edge-0"),
        (pod_of(RENDERED, scheduled=False, conditions=[FULL]), "Unschedulable", "Insufficient memory"),
        (pod_of(RENDERED, phase="Failed", reason="Evicted", message="disk"), "Evicted", "disk; it is made again"),
        (pod_of(RENDERED, containerStatuses=[container("server", waiting=PULL)]), "ImagePullFailed", "pullSecret"),
        (pod_of(RENDERED, containerStatuses=[container("keeper", waiting=PULL)]), "ImagePullFailed", "an admin"),
        (
            pod_of(RENDERED, containerStatuses=[container("server", waiting=LOOP, last=over(REPORT))]),
            "PortInUse",
            "8501",
        ),
        (pod_of(RENDERED, containerStatuses=[container("server", **over(REPORT))]), "PortInUse", "cannot listen"),
        (
            pod_of(RENDERED, containerStatuses=[container("server", waiting=LOOP, last=over(reason="OOMKilled"))]),
            "OOMKilled",
            "resources.limits.memory",
        ),
        (
            pod_of(RENDERED, containerStatuses=[container("server", waiting=LOOP, last=over("it \x1b[2J fell"))]),
            "ServerExited",
            "exit code 1: it \N{REPLACEMENT CHARACTER}[2J fell",
        ),
        (
            pod_of(RENDERED, containerStatuses=[container("server", running={}, last=over(reason="OOMKilled"))]),
            "OOMKilled",
            "resources.limits.memory",
        ),
        (
            pod_of(RENDERED, containerStatuses=[container("server", waiting=LOOP, last=over(code=0))]),
            "ServerExited",
            "0;",
        ),
        (
            pod_of(RENDERED, containerStatuses=[container("server", waiting={"reason": "RunContainerError"})]),
            "ContainerNotStarted",
            "server",
        ),
        (
            pod_of(RENDERED, conditions=[condition("Ready", "False"), condition("ContainersReady")]),
            "NodeLost",
            "edge-0 does not answer",
        ),
    ],
)
def test_what_keeps_a_pod_from_serving_is_told(pod: Pod, reason: str, said: str) -> None:
    failure = status(pod, None).failure
    assert failure is not None
    assert (failure.reason, failure.retryable) == (reason, True)
    assert said in failure.message


@pytest.mark.parametrize(
    "pod",
    [
        pod_of(RENDERED, scheduled=False, age=1, conditions=[LATE]),
        pod_of(RENDERED, containerStatuses=[container("server", running={})]),
        pod_of(RENDERED, going=True, phase="Succeeded"),
        pod_of(RENDERED, containerStatuses=[container("server", ready=True, restarts=4, last=over(), running={})]),
        pod_of(RENDERED, containerStatuses=[container("server", waiting={"reason": "ContainerCreating"})]),
    ],
)
def test_what_is_in_order_for_a_while_is_not_told(pod: Pod) -> None:
    assert status(pod, None).failure is None


def test_a_pod_that_has_to_end_on_a_node_that_is_away_is_told() -> None:
    away = msgspec.structs.replace(NODE, ready="Unknown")
    failure = status(pod_of(RENDERED, going=True, conditions=READY), node=away).failure
    assert failure is not None
    assert failure.reason == "NodeLost"
    assert "the former Pod there has to end" in failure.message


@pytest.mark.parametrize(
    ("error", "reason", "retryable"),
    [
        (Forbidden('pods "x" is forbidden: violates PodSecurity "baseline:v1": host'), "PodSecurityForbids", True),
        (Forbidden("exceeded quota: pods"), "QuotaExceeded", True),
        (Forbidden("failed quota: few: must specify limits.cpu"), "PodNotCreated", True),
        (Invalid("spec.containers[1].resources: Invalid value", reason="Invalid"), "Invalid", False),
        (Conflict("again"), "Conflict", True),
    ],
)
def test_why_a_pod_is_not_let_in_is_told(error: ModelwrightError, reason: str, retryable: bool) -> None:
    failure = edge_faults.refused(error, SERVER)
    assert (failure.reason, failure.retryable) == (reason, retryable)
    if reason == "PodSecurityForbids":
        command = "kubectl label --overwrite ns vision pod-security.kubernetes.io/enforce=privileged"
        assert command in failure.message


@pytest.mark.parametrize(
    ("reason", "message", "expected", "said"),
    [
        ("TokenNotUsable", "cannot be read: No such file or directory", "SecretNotFound", "no Secret who in"),
        ("TokenNotUsable", "holds no token", "TokenNotUsable", "the Secret who: holds no token"),
        ("CertificateNotUsable", "[Errno 2] No such file", "SecretNotFound", "no Secret cert in"),
        ("ModelsInUse", "No such file", "ModelsInUse", "No such file"),
    ],
)
def test_what_is_wrong_with_a_secret_is_told_by_its_name(reason: str, message: str, expected: str, said: str) -> None:
    server = a_model(token_secret="who", tls_secret="cert")
    rendered = render(server, NODE.name, SETTINGS)
    state = KeeperState(
        task=digest(rendered.told[TASK_ANNOTATION]), failure=Failure(reason=reason, message=message, retryable=True)
    )
    failure = status(pod_of(rendered), state, server=server, rendered=rendered).failure
    assert failure is not None
    assert (failure.reason, failure.retryable) == (expected, True)
    assert said in failure.message
