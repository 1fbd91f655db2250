"""What is done next about a Pod at the edge."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.kubernetes_servers.edge_support import NODE, OWNER, SETTINGS, V1, a_model, pod_of

from modelwright.adapters.kubernetes.servers.edge_model import render
from modelwright.adapters.kubernetes.servers.edge_plan import Decision, Do, decide, has_time, tell
from modelwright.adapters.kubernetes.servers.node_choice import Choice
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.serving import TASK_ANNOTATION, ServeTask
from modelwright.ports.workloads import Failure, Server

SERVER = a_model()
RENDERED = render(SERVER, NODE.name, SETTINGS)
V2 = msgspec.structs.replace(V1, version="v2", number=2)
REFUSED = Failure(reason="PodNotCreated", message="no", retryable=True)
NEW_VERSION, NEW_PORT, STOPPED = a_model("onnx", V2), a_model(port=8600), a_model(replicas=0)
RUNS, GOES, ENDED = pod_of(RENDERED), pod_of(RENDERED, going=True), pod_of(RENDERED, phase="Failed")


@pytest.mark.parametrize(
    ("server", "pod", "expected"),
    [
        (SERVER, None, Do.MAKE),
        (SERVER, RUNS, Do.NOTHING),
        (SERVER, GOES, Do.NOTHING),
        (SERVER, ENDED, Do.RENEW),
        (SERVER, pod_of(RENDERED, phase="Succeeded"), Do.RENEW),
        (NEW_VERSION, RUNS, Do.TELL),
        (NEW_VERSION, None, Do.MAKE),
        (NEW_PORT, RUNS, Do.REPLACE),
        (NEW_PORT, GOES, Do.NOTHING),
        (NEW_PORT, ENDED, Do.RENEW),
        (STOPPED, RUNS, Do.END),
        (STOPPED, ENDED, Do.END),
        (STOPPED, GOES, Do.NOTHING),
        (STOPPED, None, Do.NOTHING),
    ],
)
def test_the_next_step_follows_from_what_is_wanted_and_what_there_is(
    server: Server, pod: Pod | None, expected: Do
) -> None:
    rendered = render(server, NODE.name, SETTINGS)
    decision = decide(server, Choice(node=NODE), rendered, pod, None, swept=True)
    assert (decision.do, decision.failure) == (expected, None)


def test_what_serves_is_left_alone_while_the_node_that_is_wanted_is_not_there() -> None:
    failure = Failure(reason="NodeNotFound", message="none", retryable=True)
    for pod in (RUNS, GOES, ENDED, None):
        decision = decide(SERVER, Choice(failure=failure), None, pod, None, swept=True)
        assert (decision.do, decision.failure) == (Do.NOTHING, failure)


def test_a_port_that_another_has_is_waited_for() -> None:
    other = msgspec.structs.replace(OWNER, name="other")
    for pod in (None, RUNS):
        decision = decide(NEW_PORT, Choice(node=NODE), render(NEW_PORT, NODE.name, SETTINGS), pod, other, swept=True)
        assert decision.do is Do.NOTHING
        assert decision.failure is not None
        assert decision.failure.reason == "PortTaken"
        assert "8600 on the node edge-0" in decision.failure.message
        assert "InferenceModel vision/other" in decision.failure.message


@pytest.mark.parametrize(
    ("do", "failure", "refused", "put_off"),
    [
        (Do.MAKE, None, None, False),
        (Do.MAKE, None, REFUSED, True),
        (Do.REPLACE, None, REFUSED, True),
        (Do.REPLACE, None, None, False),
        (Do.RENEW, None, None, True),
        (Do.END, None, REFUSED, False),
        (Do.TELL, None, REFUSED, False),
        (Do.NOTHING, REFUSED, REFUSED, False),
    ],
)
def test_what_was_refused_or_has_ended_a_moment_ago_is_not_tried_again_at_once(
    do: Do, failure: Failure | None, refused: Failure | None, put_off: bool
) -> None:
    assert has_time(Decision(do, failure), refused) == put_off


def test_no_pod_is_made_where_the_models_are_being_removed() -> None:
    assert decide(SERVER, Choice(node=NODE), RENDERED, None, None, swept=False).do is Do.NOTHING


def test_a_pod_is_told_as_it_was_seen_and_of_nothing_but_what_has_changed() -> None:
    rendered = render(NEW_VERSION, NODE.name, SETTINGS)
    assert rendered.digest == RENDERED.digest
    metadata = tell(RUNS, rendered)["metadata"]
    assert isinstance(metadata, dict)
    assert (metadata["uid"], metadata["resourceVersion"]) == ("pod-1", "7")
    task = msgspec.json.decode(metadata["annotations"][TASK_ANNOTATION], type=ServeTask)
    assert task.default == "v2"
