"""Whatever is asked for and seen in whatever order: what serves is never stopped, and what is said is so."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.make import CLUSTER, HERE, NOW, built, manifest, seconds, served, server, version

from modelwright.api.inference_model import TLS, InferenceModel, InferenceModelSpec
from modelwright.api.kinds import decode, to_dict
from modelwright.ports.workloads import Failure, SeenNotice, Server, ServerStatus
from modelwright.reconcile.inference_model import Observed, reconcile, server_name
from modelwright.reconcile.plan import Plan

STEPS = 10
PLACE = msgspec.structs.replace(CLUSTER, secured=frozenset({"onnx"}))
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"model_version": "mv-2"},
    {"replicas": 3},
    {"image": "registry.test/serve:1"},
    {"tls": TLS(secret="cert")},
    {"image": "registry.test/serve:1", "tls": TLS(secret="cert")},
    {"model_version": "", "manifest": manifest("4"), "target_version": "4"},
    {"framework_type": "caffe"},
    {"deploy_to_layer": "edge", "node_name": "edge-1"},
    {"replicas": 0},
)
LOST = Failure(reason="NodeLost", message="away", retryable=True)
SERVERS: tuple[dict[str, Any] | None, ...] = (
    {},
    {"serving_version": "mv-2"},
    {"serving_version": "", "up_to_date": False, "replicas": 2},
    {"exposed": False, "notices": (SeenNotice(reason="NodeChosen", message="edge-1 was chosen"),)},
    {"up_to_date": False, "failure": Failure(reason="ModelInvalid", message="no")},
    {"up_to_date": False, "ready_replicas": 0, "serving_version": "", "failure": LOST},
    {"replicas": 0, "ready_replicas": 0, "serving_version": ""},
    None,
)


class Moment(msgspec.Struct, frozen=True):
    """Which spec, how the ModelVersion of any name is, how the server is."""

    changes: dict[str, Any]
    source: str
    server: dict[str, Any] | None


MOMENTS = st.builds(
    Moment, st.sampled_from(CHANGES), st.sampled_from(["built", "not built", "gone"]), st.sampled_from(SERVERS)
)
LIVES = st.lists(MOMENTS, min_size=1, max_size=STEPS)


def look(moment: Moment, subject: InferenceModel, place: Any) -> Observed:
    name = subject.spec.model_version
    source = built(name) if moment.source == "built" else version(name) if moment.source == "not built" else None
    if not name or subject.spec.image:
        source = None
    seen: ServerStatus | None = None if moment.server is None else server(server_name(subject), **moment.server)
    return Observed(model_version=source, server=seen, capabilities=place)


def live(moments: list[Moment], place: Any = PLACE) -> list[tuple[InferenceModel, Observed, Plan]]:
    """What is planned at each moment, the status of one the start of the next; a changed spec is a new generation."""
    lived: list[tuple[InferenceModel, Observed, Plan]] = []
    spec: InferenceModelSpec | None = None
    status, generation = served().status, 1
    for moment in moments:
        subject = served(**moment.changes)
        generation += spec is not None and subject.spec != spec
        spec = subject.spec
        metadata = msgspec.structs.replace(subject.metadata, generation=generation)
        subject = msgspec.structs.replace(subject, metadata=metadata, status=status)
        observed = look(moment, subject, place)
        plan = reconcile(subject, observed, NOW)
        lived.append((subject, observed, plan))
        status = plan.status
    return lived


@given(LIVES)
def test_what_serves_is_never_stopped_while_replicas_are_wanted(moments: list[Moment]) -> None:
    for subject, _, plan in live(moments):
        runs = {workload.name for workload in plan.workloads} | plan.keep
        assert runs == {server_name(subject)} or not subject.spec.replicas


@given(LIVES)
def test_a_version_that_was_had_once_is_never_waited_for_again(moments: list[Moment]) -> None:
    for subject, _, plan in live(moments):
        known = subject.status.resolved
        had = known is not None and known.model_version == subject.spec.model_version
        if had and not subject.spec.image and subject.spec.replicas and subject.spec.framework_type == "onnx":
            assert len(plan.workloads) == 1


@given(LIVES)
def test_there_is_an_address_exactly_while_somebody_answers(moments: list[Moment]) -> None:
    for _, observed, plan in live(moments):
        seen = observed.server
        assert bool(plan.status.url) == (seen is not None and seen.ready_replicas > 0)
        available = next(each for each in plan.status.conditions if each.type == "Available")
        assert (available.status == "True") == bool(plan.status.url)


@given(LIVES)
def test_what_is_seen_again_changes_nothing_and_is_not_told_again(moments: list[Moment]) -> None:
    for subject, observed, plan in live(moments):
        settled = msgspec.structs.replace(subject, status=plan.status)
        again = reconcile(settled, observed, NOW + seconds(60))
        assert (again.status, again.workloads, again.keep) == (plan.status, plan.workloads, plan.keep)
        assert again.notices == ()


@given(LIVES, st.sampled_from([PLACE, HERE]))
def test_every_status_can_be_stored_and_says_one_thing(moments: list[Moment], place: Any) -> None:
    for subject, _, plan in live(moments, place):
        written = msgspec.structs.replace(subject, status=plan.status)
        assert decode(InferenceModel, to_dict(written)) == written
        true = [each.type for each in plan.status.conditions if each.status == "True"]
        assert sum(type_ in ("Ready", "Reconciling", "Stalled") for type_ in true) == 1
        assert all(each.message for each in plan.status.conditions if each.type in ("Ready", "Available"))
        assert len({each.type for each in plan.status.conditions}) == len(plan.status.conditions)


@given(LIVES)
def test_nothing_of_a_cluster_is_wanted_of_one_machine(moments: list[Moment]) -> None:
    for _, _, plan in live(moments, HERE):
        for workload in plan.workloads:
            assert isinstance(workload, Server)
            assert (workload.exposure, workload.token_secret, workload.tls_secret) == (None, "", "")
        assert {each.reason for each in plan.status.notices} <= {"NodeChosen"}
