"""Whatever is seen in whatever order: a gateway that runs goes on, and is told nothing that is not news."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.make import CLUSTER, HERE, NOW, only_workload
from tests.unit.reconcile.make_joint import EDGE_SPEC, answering, gateway, joint, settled

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import HardExampleMining, JointInferenceService, JointModel
from modelwright.api.kinds import decode, kind_of, to_dict
from modelwright.ports.workloads import AskedModel, Failure, ServerStatus
from modelwright.reconcile.joint_inference_service import Observed, edge_name, gateway_name, reconcile
from modelwright.reconcile.owners import owner_reference
from modelwright.reconcile.plan import Plan

STEPS = 12
SPECS = (
    joint(),
    joint(edge_model=JointModel(spec=EDGE_SPEC)),
    joint(edge_model=JointModel(name="another")),
    joint(hard_example_mining=HardExampleMining(policy="margin")),
    joint(cloud_model=JointModel(name="small")),
)
GATEWAYS: tuple[dict[str, Any] | None, ...] = (
    {},
    {"up_to_date": False},
    {"asked": (AskedModel(side="edge", failure=Failure(reason="ModelsDiffer", message="no")),)},
    {"ready_replicas": 0, "up_to_date": False},
    {"up_to_date": False, "failure": Failure(reason="ConfigInvalid", message="no")},
    {"up_to_date": False, "failure": Failure(reason="CrashLoopBackOff", message="again", retryable=True)},
    None,
)


class Seen(msgspec.Struct, frozen=True):
    """One moment: which spec, how each model is (None: not there), whose the edge model is, how the gateway is."""

    spec: JointInferenceService
    edge: tuple[bool, str, bool, str] | None
    cloud: tuple[bool, str, bool, str] | None
    owned: bool
    gateway: dict[str, Any] | None


MODELS = st.none() | st.tuples(
    st.booleans(),
    st.sampled_from(["", "http://127.0.0.1:1/v1/models/m", "http://127.0.0.1:2/v1/models/m"]),
    st.booleans(),
    st.sampled_from(["", "wrong framework"]),
)
MOMENTS = st.builds(Seen, st.sampled_from(SPECS), MODELS, MODELS, st.booleans(), st.sampled_from(GATEWAYS))


def model(name: str, how: tuple[bool, str, bool, str] | None, **changes: Any) -> InferenceModel | None:
    if how is None:
        return None
    available, url, deleted, stalled = how
    return answering(name, available=available, url=url, deleted=deleted, stalled=stalled, **changes)


def look(moment: Seen, subject: JointInferenceService, here: Any) -> Observed:
    owners = (owner_reference(subject),) if moment.owned else ()
    edge = model(edge_name(subject), moment.edge, owners=owners)
    seen: ServerStatus | None = None if moment.gateway is None else gateway(subject, **moment.gateway)
    owned = (edge,) if edge is not None and moment.owned else ()
    return Observed(edge=edge, cloud=model("large", moment.cloud), owned=owned, gateway=seen, capabilities=here)


def live(moments: list[Seen], here: Any = HERE) -> list[tuple[JointInferenceService, Observed, Plan]]:
    """What is planned at each moment, the status of one the start of the next."""
    lived, status = [], joint().status
    for moment in moments:
        subject = msgspec.structs.replace(moment.spec, status=status)
        observed = look(moment, subject, here)
        plan = reconcile(subject, observed, NOW)
        lived.append((subject, observed, plan))
        status = plan.status
    return lived


@given(st.lists(MOMENTS, min_size=1, max_size=STEPS))
def test_a_gateway_that_runs_is_never_stopped(moments: list[Seen]) -> None:
    for subject, _, plan in live(moments):
        assert [workload.name for workload in plan.workloads] == [gateway_name(subject)]


@given(st.lists(MOMENTS, min_size=1, max_size=STEPS))
def test_on_a_cluster_it_is_at_least_left_as_it_is(moments: list[Seen]) -> None:
    for subject, _, plan in live(moments, CLUSTER):
        assert gateway_name(subject) in plan.keep


@given(st.lists(MOMENTS, min_size=1, max_size=STEPS))
def test_an_address_changes_only_for_one_that_is_seen(moments: list[Seen]) -> None:
    told = {"edge": "", "cloud": ""}
    for _, observed, plan in live(moments):
        server = only_workload(plan)
        for side, url in (("edge", server.program.edge_url), ("cloud", server.program.cloud_url)):
            found = getattr(observed, side)
            assert url in (told[side], found.status.url if found is not None else "")
            assert url or not told[side]
            told[side] = url


@given(st.lists(MOMENTS, min_size=1, max_size=STEPS))
def test_what_is_seen_again_changes_nothing(moments: list[Seen]) -> None:
    for subject, observed, plan in live(moments):
        again = reconcile(settled(subject, plan), observed, NOW)
        assert again.status == plan.status
        assert again.workloads == plan.workloads


@given(st.lists(MOMENTS, min_size=1, max_size=STEPS))
def test_every_status_can_be_stored_and_says_one_thing(moments: list[Seen]) -> None:
    for subject, _, plan in live(moments):
        written = settled(subject, plan)
        assert decode(kind_of(JointInferenceService).type, to_dict(written)) == written
        true = [each.type for each in plan.status.conditions if each.status == "True"]
        assert sum(type_ in ("Ready", "Reconciling", "Stalled") for type_ in true) == 1
        assert all(each.message for each in plan.status.conditions if each.type in ("Ready", "Available"))


@given(st.lists(MOMENTS, min_size=1, max_size=STEPS))
def test_only_models_of_its_own_are_written_or_deleted(moments: list[Seen]) -> None:
    for subject, _, plan in live(moments):
        for child in (*plan.update, *plan.delete):
            assert subject.metadata.uid in [owner.uid for owner in child.metadata.owner_references]
