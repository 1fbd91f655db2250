"""How many Pods at the edge are made anew at once for the operator's sake, and which of them that is about."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes_servers.edge_support import NODE, SETTINGS, V1, a_model, container, pod_of

from modelwright.adapters.kubernetes.servers import gateway_pod
from modelwright.adapters.kubernetes.servers.edge_model import render
from modelwright.adapters.kubernetes.servers.edge_notes import Note
from modelwright.adapters.kubernetes.servers.edge_plan import Do, decide
from modelwright.adapters.kubernetes.servers.edge_turns import Turns, has_images
from modelwright.adapters.kubernetes.servers.edge_wish import wish_of
from modelwright.adapters.kubernetes.servers.node_choice import Choice
from modelwright.adapters.kubernetes.servers.node_mirror import Node
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.workloads import (
    Container,
    Download,
    Failure,
    Gateway,
    Kept,
    ModelImage,
    Placement,
    Resources,
    Server,
    Upstream,
)

replace = msgspec.structs.replace
SERVER = a_model()
UPGRADED = replace(SETTINGS, agent_image="hub.example/op:2")
OLD, NEW = render(SERVER, NODE.name, SETTINGS), render(SERVER, NODE.name, UPGRADED)
THERE = [{**container(name, ready=True), "imageID": "a@sha256:1"} for name in ("keeper", "server")]
PULLED, AWAY = pod_of(NEW, containerStatuses=THERE), replace(NODE, ready="Unknown")
PULLS = pod_of(NEW, containerStatuses=[THERE[0], container("server", waiting={"reason": "ErrImagePull"})])
SERVES, GOES = pod_of(OLD, containerStatuses=THERE), pod_of(OLD, containerStatuses=THERE, going=True)


def free(*pods: Pod, notes: list[tuple[Note, Pod | None]] | None = None, node: Node | None = NODE) -> int:
    """How many may go for the new images."""
    turns = Turns()
    turns.count(pods, notes or [], lambda _: node)
    return turns.free(NEW.images)


@pytest.mark.parametrize(("have", "at_once"), [(0, 1), (1, 1), (2, 2), (4, 4), (8, 8)])
def test_as_many_may_wait_for_their_images_as_have_them_and_one_at_least(have: int, at_once: int) -> None:
    assert free(*[PULLED] * have, *[SERVES] * 20) == at_once
    assert free(*[PULLED] * have, *[PULLS] * at_once) == 0


def test_one_that_no_container_is_known_of_yet_waits_too() -> None:
    assert [has_images(pod) for pod in (PULLED, PULLS, pod_of(NEW))] == [True, False, False]
    assert free(pod_of(NEW)) == 0


@pytest.mark.parametrize("node", [AWAY, None])
def test_one_on_a_node_that_does_not_answer_or_is_gone_keeps_no_other_waiting(node: Node | None) -> None:
    assert free(PULLS, node=node) == 1
    assert free(notes=[(Note(server=SERVER, rendered=NEW), GOES)], node=node) == 1


def test_what_has_ended_or_goes_is_not_counted_of_itself() -> None:
    assert free(pod_of(NEW, phase="Failed"), pod_of(NEW, going=True)) == 1


@pytest.mark.parametrize(
    ("note", "pod", "expected"),
    [
        (Note(server=SERVER, rendered=NEW), GOES, 0),  # known by the Pod: so it is after a restart too
        (Note(server=SERVER, rendered=NEW), None, 0),
        (Note(server=SERVER, rendered=NEW, turn=True), SERVES, 0),
        (Note(server=SERVER, rendered=NEW), SERVES, 1),
        (Note(server=SERVER, rendered=OLD), GOES, 1),
        (Note(server=a_model(replicas=0), rendered=NEW), GOES, 1),
        (Note(server=None, rendered=NEW), GOES, 1),
        (Note(server=SERVER, rendered=NEW, ending=True), GOES, 1),
        (Note(server=SERVER, rendered=NEW, failure=Failure(reason="PortTaken", message="no")), None, 1),
    ],
)
def test_one_whose_former_pod_was_taken_away_waits_until_it_is_no_longer_wanted(
    note: Note, pod: Pod | None, expected: int
) -> None:
    assert free(notes=[(note, pod)]) == expected


def test_a_turn_that_is_taken_is_gone_before_anything_shows_it() -> None:
    turns = Turns()
    turns.count([PULLED, PULLED], [], lambda _: NODE)
    turns.take(NEW.images)
    assert turns.free(NEW.images) == 1
    assert turns.free(OLD.images) == 1


def steps(pod: Pod, server: Server = SERVER, *, turn: bool = False) -> tuple[Do, bool]:
    rendered = render(server, NODE.name, UPGRADED)
    decision = decide(server, Choice(node=NODE), rendered, pod, None, swept=True, turn=turn)
    return decision.do, decision.deferred


def test_a_pod_is_made_anew_for_the_operators_images_only_in_its_turn() -> None:
    assert steps(SERVES, turn=True) == (Do.REPLACE, False)
    assert steps(SERVES) == (Do.NOTHING, True)


def test_meanwhile_it_is_told_what_its_user_wants() -> None:
    assert steps(SERVES, a_model("onnx", replace(V1, version="v2", number=2))) == (Do.TELL, True)


@pytest.mark.parametrize(
    "server",
    [
        a_model(port=8600),
        a_model(resources=Resources(limits={"memory": "1Gi"})),
        a_model("sklearn"),
        a_model(token_secret="guard"),
        a_model("onnx", replace(V1, source=Download(url="https://files.example/m", secret="login"))),
    ],
)
def test_what_the_user_changes_is_not_held_back(server: Server) -> None:
    assert steps(SERVES, server) == (Do.REPLACE, False)


def test_what_has_not_got_its_own_images_either_has_nothing_to_lose() -> None:
    assert steps(pod_of(OLD, containerStatuses=[container("keeper"), container("server")])) == (Do.REPLACE, False)


def test_one_that_an_operator_made_that_named_no_wish_is_held_back_too() -> None:
    metadata = SERVES.metadata
    said = replace(metadata.annotations, asked="", images="")
    pod = replace(SERVES, metadata=replace(metadata, annotations=said))
    assert steps(pod) == (Do.NOTHING, True)


def gateway(**more: Any) -> Server:
    return a_model(program=Gateway(name="digits", **more), port=8500)


PLAIN = gateway()


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (SERVER, a_model("onnx", replace(V1, version="v2", source=ModelImage(image="hub.example/n"))), True),
        (SERVER, a_model("onnx", replace(V1, source=ModelImage(image="hub.example/m", pull_secret="login"))), False),
        (SERVER, replace(SERVER, program=Container(image="hub.example/mine:1")), False),
        (SERVER, replace(SERVER, placement=Placement("cloud", "edge-0")), False),
        (PLAIN, gateway(edge_url="http://192.0.2.1:8501/v1/models/digits", policy="random"), True),
        (PLAIN, gateway(kept=Kept("vision/digits")), False),
        (PLAIN, gateway(cloud=Upstream(token_secret="guard")), False),
    ],
)
def test_what_is_asked_for_is_what_a_running_pod_cannot_be_told(before: Server, after: Server, same: bool) -> None:
    wishes = [wish_of(server, NODE.name, [])["modelwright.dev/asked"] for server in (before, after)]
    assert (wishes[0] == wishes[1]) == same
    assert wishes[0] != wish_of(before, "edge-1", [])["modelwright.dev/asked"]


def test_what_is_asked_for_is_spelled_as_it_always_was() -> None:
    """Another spelling would look, at the next upgrade, as if everybody had asked for something else."""
    rendered = [OLD, gateway_pod.render(PLAIN, NODE.name, SETTINGS)]
    assert [each.asked for each in rendered] == ["cfad32bffa2a764ef882c484d035412b", "13655f67b33fb2e192ab01480d3e0252"]
