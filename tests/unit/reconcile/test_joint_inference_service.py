"""What a JointInferenceService makes of its two models and its gateway, and what is said of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import CLUSTER, HERE, NOW, metadata, only_workload, reason, seconds, state
from tests.unit.reconcile.make_joint import EDGE_SPEC, answering, gateway, joint, observed, settled

from modelwright.api.inference_model import Auth, InferenceModel
from modelwright.api.joint_inference_service import DEFAULT_PARAMETERS, Gateway, HardExampleMining, JointModel, Keep
from modelwright.api.meta import OwnerReference
from modelwright.gateway import policies
from modelwright.ports.workloads import AskedModel, Failure, Placement
from modelwright.reconcile import conditions
from modelwright.reconcile.joint_inference_service import Observed, cloud_name, edge_name, gateway_name, reconcile
from modelwright.reconcile.plan import Plan

INLINE = {"edge_model": JointModel(spec=EDGE_SPEC)}
replace = msgspec.structs.replace


def plan(subject: Any, seen: Observed) -> Plan:
    return reconcile(subject, seen, NOW)


def message(status: Any, type_: str = "Ready") -> str:
    found = conditions.find(status.conditions, type_)
    assert found is not None
    return found.message


def made_edge(subject: Any, **changes: Any) -> InferenceModel:
    """The edge model that the service has made, answering."""
    (child,) = plan(subject, observed(edge=None)).create
    return answering(child.metadata.name, spec=child.spec, owners=child.metadata.owner_references, **changes)


# The gateway --------------------------------------------------------------------------------------------------------


def test_the_gateway_is_told_both_models_and_the_whole_policy() -> None:
    wanted = only_workload(plan(joint(timeout_seconds=0.5), observed()))
    assert wanted.name == gateway_name(joint())
    assert wanted.program.name == "digits"
    assert wanted.program.edge_url == "http://127.0.0.1:41001/v1/models/small"
    assert wanted.program.cloud_url == "http://127.0.0.1:41002/v1/models/large"
    assert wanted.program.timeout_seconds == 0.5
    assert (wanted.program.policy, wanted.program.parameters) == ("confidence", {"threshold": 0.9})
    assert wanted.program.kept is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("confidence", {"threshold": 0.9}),
        ("margin", {"threshold": 0.8}),
        ("crossEntropy", {"threshold": 0.325}),
        ("random", {"probability": 0.1}),
        ("example.energy", {}),
    ],
)
def test_each_policy_that_is_built_in_has_a_default(policy: str, expected: dict[str, float]) -> None:
    mining = HardExampleMining(policy=policy)
    assert only_workload(plan(joint(hard_example_mining=mining), observed())).program.parameters == expected


def test_the_defaults_are_those_of_a_gateway_by_hand() -> None:
    by_hand = {
        "confidence": {"threshold": policies.CONFIDENCE},
        "margin": {"threshold": policies.MARGIN},
        "crossEntropy": {"threshold": policies.ENTROPY},
        "random": {"probability": policies.SHARE},
    }
    assert by_hand == DEFAULT_PARAMETERS
    assert policies.BUILT_IN.keys() == DEFAULT_PARAMETERS.keys()


def test_a_parameter_that_is_given_is_taken() -> None:
    mining = HardExampleMining(policy="margin", parameters={"threshold": 0.25})
    wanted = only_workload(plan(joint(hard_example_mining=mining), observed()))
    assert wanted.program.parameters == {"threshold": 0.25}


def test_hard_examples_are_kept_under_the_name_of_the_service_and_their_place_is_told() -> None:
    subject = joint(hard_example_mining=HardExampleMining(keep=Keep(max_bytes=1000)))
    after = plan(subject, observed(gateway=gateway(subject, kept_path="/d/hard-examples/default/digits", kept_bytes=7)))
    assert only_workload(after).program.kept.name == "default/digits"
    assert only_workload(after).program.keep_max_bytes == 1000
    assert (after.status.kept_path, after.status.kept_bytes) == ("/d/hard-examples/default/digits", 7)
    down = plan(settled(subject, after), observed(gateway=None)).status
    assert (down.kept_path, down.kept_bytes) == ("/d/hard-examples/default/digits", 7)
    assert plan(settled(joint(), after), observed()).status.kept_path == ""


@pytest.mark.parametrize(
    ("size", "told"), [(0, 0), (999, 999), (1_009, 1_000), (123_456, 123_000), (9_999_999, 9_990_000)]
)
def test_a_size_that_changes_all_the_time_is_told_to_three_digits(size: int, told: int) -> None:
    subject = joint(hard_example_mining=HardExampleMining(keep=Keep(max_bytes=10**9)))
    after = plan(subject, observed(gateway=gateway(subject, kept_path="/d", kept_bytes=size)))
    assert after.status.kept_bytes == told


def test_the_gateway_runs_before_there_is_any_model() -> None:
    wanted = only_workload(plan(joint(), observed(edge=None, cloud=None, gateway=None)))
    assert (wanted.program.edge_url, wanted.program.cloud_url) == ("", "")


def test_the_gateway_has_a_url_of_the_services_own_name() -> None:
    assert plan(joint(), observed()).status.url == "http://127.0.0.1:40500/v1/models/digits"
    assert plan(joint(), observed(gateway=None)).status.url == ""


def test_a_port_that_is_asked_for_is_used_and_a_cluster_has_its_own_default() -> None:
    assert only_workload(plan(joint(gateway=Gateway(port=9000)), observed())).port == 9000
    assert only_workload(plan(joint(), observed())).port == 0
    assert only_workload(plan(joint(), observed(here=CLUSTER))).port == 8500


def test_on_a_cluster_the_gateway_runs_beside_the_edge_model_unless_asked_otherwise() -> None:
    here = observed(here=CLUSTER)
    assert only_workload(plan(joint(), here)).placement == Placement("edge", "laptop")
    asked = joint(gateway=Gateway(node_selector={"zone": "a"}))
    assert only_workload(plan(asked, here)).placement == Placement("edge", "", {"zone": "a"})
    asked = joint(gateway=Gateway(node_name="edge-7"))
    assert only_workload(plan(asked, here)).placement == Placement("edge", "edge-7")
    assert only_workload(plan(asked, observed(here=HERE))).placement == Placement("edge", "laptop")
    away = answering("small", spec=replace(EDGE_SPEC, deploy_to_layer="cloud", node_name="", node_selector={"a": "b"}))
    assert only_workload(plan(joint(), observed(edge=away, here=CLUSTER))).placement == Placement(
        "cloud", "", {"a": "b"}
    )


def test_on_a_cluster_a_gateway_waits_for_its_node_and_stays_on_it_when_the_edge_model_goes() -> None:
    waiting = plan(joint(), observed(edge=None, gateway=None, here=CLUSTER))
    assert waiting.workloads == ()
    assert "node of the edge model" in message(waiting.status)
    running = plan(joint(), observed(edge=None, here=CLUSTER))
    assert running.workloads == ()
    assert running.keep == {gateway_name(joint())}
    inline = plan(joint(**INLINE), observed(edge=None, gateway=None, here=CLUSTER))
    assert only_workload(inline).placement == Placement("edge", "laptop")


def test_a_model_that_is_nowhere_for_a_while_leaves_the_gateway_on_its_node() -> None:
    first = plan(joint(), observed(here=CLUSTER))
    nowhere = answering("small", spec=replace(EDGE_SPEC, node_name="", node_selector={"a": "b"}), node_name="", url="")
    later = plan(settled(joint(), first), observed(edge=nowhere, here=CLUSTER))
    assert only_workload(later) == only_workload(first)


# Inline models ------------------------------------------------------------------------------------------------------


def test_inline_models_are_made_and_go_with_the_service() -> None:
    subject = joint(**INLINE)
    (child,) = plan(subject, observed(edge=None)).create
    assert (child.metadata.name, child.metadata.namespace) == ("digits-edge", "default")
    assert child.spec == EDGE_SPEC
    (owner,) = child.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == (
        "JointInferenceService",
        "digits",
        subject.metadata.uid,
        True,
    )
    assert reason(plan(subject, observed(edge=None)).status.conditions, "Reconciling") == "EdgeModelNotReady"


def test_names_are_those_of_the_spec_or_derived_and_never_too_long() -> None:
    assert (edge_name(joint()), cloud_name(joint())) == ("small", "large")
    inline = joint(**INLINE)
    for name, expected in (("a" * 246 + ".-" + "b" * 5, "a" * 246 + "-edge"), ("a" * 253, "a" * 248 + "-edge")):
        assert edge_name(replace(inline, metadata=metadata(name))) == expected


def test_an_inline_model_is_kept_equal_to_its_spec() -> None:
    subject = joint(**INLINE)
    child = made_edge(subject)
    same = plan(subject, observed(edge=child, owned=(child,)))
    assert (same.create, same.update, same.delete) == ((), (), ())
    changed = replace(child, spec=replace(child.spec, replicas=0), metadata=replace(child.metadata, generation=2))
    (updated,) = plan(subject, observed(edge=changed, owned=(changed,))).update
    assert updated == replace(changed, spec=EDGE_SPEC)


def test_a_model_that_is_named_is_never_written() -> None:
    after = plan(joint(), observed())
    assert (after.create, after.update, after.delete) == ((), (), ())


def test_a_name_that_is_taken_stalls_and_the_other_model_answers() -> None:
    subject, foreign = joint(**INLINE), answering("digits-edge")
    after = plan(subject, observed(edge=foreign))
    assert (after.create, after.update) == ((), ())
    assert reason(after.status.conditions, "Stalled") == "InferenceModelNameTaken"
    assert "edgeModel: {name: digits-edge}" in message(after.status)
    assert reason(after.status.conditions, "Available") == "CloudOnly"
    assert only_workload(after).program.edge_url == ""


def test_a_model_of_a_former_service_of_that_name_is_waited_for() -> None:
    former = OwnerReference("modelwright.dev/v1alpha1", "JointInferenceService", "digits", "former", controller=True)
    after = plan(joint(**INLINE), observed(edge=answering("digits-edge", owners=(former,))))
    assert reason(after.status.conditions, "Reconciling") == "EdgeModelNotReady"
    assert (after.create, after.update) == ((), ())


def test_a_model_that_was_made_is_deleted_once_the_gateway_asks_another() -> None:
    inline = joint(**INLINE)
    child = made_edge(inline)
    before = settled(inline, plan(inline, observed(edge=child, owned=(child,))))
    named = replace(before, spec=joint().spec)

    missing = plan(named, observed(edge=None, owned=(child,)))
    assert missing.delete == ()
    assert only_workload(missing).program.edge_url == child.status.url

    told = plan(settled(named, missing), observed(owned=(child,)))
    assert told.delete == ()
    assert only_workload(told).program.edge_url == "http://127.0.0.1:41001/v1/models/small"

    asking = settled(named, told)
    behind = plan(asking, observed(owned=(child,), gateway=gateway(inline, up_to_date=False)))
    assert behind.delete == ()
    assert plan(asking, observed(owned=(child,))).delete == (child,)


def test_a_model_that_was_made_can_be_named_afterwards() -> None:
    child = made_edge(joint(**INLINE))
    named = joint(edge_model=JointModel(name="digits-edge"))
    after = plan(named, observed(edge=child, owned=(child,)))
    assert (after.create, after.update, after.delete) == ((), (), ())
    assert state(after.status.conditions)["Ready"] == "True"


def test_one_model_is_not_both() -> None:
    subject = joint(**INLINE, cloud_model=JointModel(name="digits-edge"))
    child = made_edge(subject)
    after = plan(subject, observed(edge=child, cloud=child, owned=(child,)))
    assert reason(after.status.conditions, "Stalled") == "SameModel"


# What is said -------------------------------------------------------------------------------------------------------


def test_a_service_whose_parts_are_all_there_is_ready() -> None:
    status = plan(joint(), observed()).status
    assert state(status.conditions) == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "Available": "True",
    }
    assert (status.edge_model.name, status.edge_model.ready) == ("small", True)
    assert (status.cloud_model.name, status.cloud_model.ready) == ("large", True)
    assert status.node_name == "laptop"


LARGE = "InferenceModel large"
DOWN: dict[str, Any] = {"available": False, "url": ""}


@pytest.mark.parametrize(
    ("cloud", "type_", "expected", "text"),
    [
        (None, "Reconciling", "CloudModelNotFound", f"{LARGE} does not exist in namespace default: create it"),
        (answering("large", **DOWN), "Reconciling", "CloudModelNotReady", f"{LARGE} does not answer yet"),
        (answering("large", **DOWN, replicas=0), "Stalled", "CloudModelScaledToZero", "raise them"),
        (answering("large", **DOWN, stalled="no such framework"), "Stalled", "CloudModelStalled", "no such framework"),
        (answering("large", deleted=True), "Reconciling", "CloudModelNotReady", "is being deleted"),
        (answering("large", auth=Auth(token_secret="t")), "Stalled", "NotImplemented", "remove auth from it"),
    ],
)
def test_a_cloud_model_that_does_not_answer_is_said_and_the_edge_answers(
    cloud: InferenceModel | None, type_: str, expected: str, text: str
) -> None:
    first = settled(joint(), plan(joint(), observed()))
    after = plan(first, observed(cloud=cloud))
    assert reason(after.status.conditions, type_) == expected
    assert text in message(after.status)
    assert state(after.status.conditions)["Ready"] == "False"
    assert only_workload(after) == only_workload(plan(joint(), observed()))
    if expected != "CloudModelNotReady" or "deleted" not in text:
        assert reason(after.status.conditions, "Available") == "EdgeOnly"
        assert message(after.status).endswith("until then small answers all rows")


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        (None, "EdgeModelNotFound"),
        (answering("small", **DOWN), "EdgeModelNotReady"),
        (answering("small", **DOWN, replicas=0), "EdgeModelScaledToZero"),
        (answering("small", **DOWN, stalled="no"), "EdgeModelStalled"),
    ],
)
def test_an_edge_model_that_does_not_answer_is_said_and_the_cloud_answers(
    edge: InferenceModel | None, expected: str
) -> None:
    status = plan(joint(), observed(edge=edge)).status
    assert reason(status.conditions) == expected
    assert reason(status.conditions, "Available") == "CloudOnly"


def test_a_model_that_is_stalled_and_goes_on_serving_is_no_fault_of_the_service() -> None:
    status = plan(joint(), observed(cloud=answering("large", stalled="ChecksumMismatch"))).status
    assert state(status.conditions)["Ready"] == "True"


def test_an_inline_model_that_answers_with_an_older_version_is_not_ready_yet() -> None:
    inline = joint(**INLINE)
    behind = made_edge(inline, stalled="version mv-1 does not exist; mv-0 goes on serving")
    status = plan(inline, observed(edge=behind, owned=(behind,))).status
    assert reason(status.conditions, "Stalled") == "EdgeModelStalled"
    assert "mv-0 goes on serving" in message(status)
    assert state(status.conditions)["Available"] == "True"

    other = replace(behind, spec=replace(behind.spec, model_version="mv-0"))
    told = plan(inline, observed(edge=other, owned=(other,))).status
    assert reason(told.conditions, "Reconciling") == "EdgeModelNotReady"


def test_a_model_that_the_gateway_cannot_use_is_said_although_it_answers() -> None:
    differ = Failure(reason="ModelsDiffer", message="output 'number' is no digit")
    found = gateway(joint(), asked=(AskedModel(side="edge"), AskedModel(side="cloud", failure=differ)))
    status = plan(joint(), observed(gateway=found)).status
    assert reason(status.conditions, "Stalled") == "ModelsDiffer"
    assert "cannot use InferenceModel large: output 'number' is no digit" in message(status)
    assert reason(status.conditions, "Available") == "EdgeOnly"
    assert not status.cloud_model.ready

    slow = Failure(reason="TimedOut", message="no answer in 2 s", retryable=True)
    after = plan(joint(), observed(gateway=gateway(joint(), asked=(AskedModel(side="edge", failure=slow),))))
    assert reason(after.status.conditions, "Reconciling") == "TimedOut"
    assert after.warn


def test_what_a_model_says_itself_comes_before_what_the_gateway_finds() -> None:
    gone = Failure(reason="Unreachable", message="connection refused", retryable=True)
    found = gateway(joint(), asked=(AskedModel(side="cloud", failure=gone),))
    scaled = answering("large", **DOWN, replicas=0)
    assert reason(plan(joint(), observed(cloud=scaled, gateway=found)).status.conditions) == "CloudModelScaledToZero"


def test_what_a_person_must_mend_comes_first_and_nothing_is_left_out() -> None:
    status = plan(joint(), observed(edge=None, cloud=answering("large", **DOWN, stalled="wrong framework"))).status
    assert reason(status.conditions, "Stalled") == "CloudModelStalled"
    assert "wrong framework" in message(status)
    assert "InferenceModel small does not exist" in message(status)
    assert reason(status.conditions, "Available") == "NoModelAnswers"


def test_a_gateway_that_fails_gives_its_own_reason() -> None:
    broken = Failure(reason="ConfigInvalid", message="no such policy")
    after = plan(joint(), observed(gateway=gateway(joint(), up_to_date=False, ready_replicas=0, failure=broken)))
    assert reason(after.status.conditions, "Stalled") == "ConfigInvalid"
    assert reason(after.status.conditions, "Available") == "NoReadyGateway"
    assert len(after.workloads) == 1


def test_a_gateway_that_is_tried_again_is_a_warning_and_not_stalled() -> None:
    again = Failure(reason="CrashLoopBackOff", message="it ended five times", retryable=True)
    after = plan(joint(), observed(gateway=gateway(joint(), up_to_date=False, ready_replicas=0, failure=again)))
    assert reason(after.status.conditions, "Reconciling") == "CrashLoopBackOff"
    assert after.warn


def test_a_gateway_that_takes_over_a_change_is_reconciling_and_available() -> None:
    status = plan(joint(), observed(gateway=gateway(joint(), up_to_date=False))).status
    assert reason(status.conditions, "Reconciling") == "RollingOut"
    assert state(status.conditions)["Available"] == "True"
    assert reason(plan(joint(), observed(gateway=None)).status.conditions) == "Starting"


def test_models_of_the_other_layer_are_asked_and_it_is_said() -> None:
    swapped = observed(edge=answering("small", deploy_to_layer="cloud"), cloud=answering("large"))
    status = plan(joint(), swapped).status
    assert state(status.conditions)["Ready"] == "True"
    assert reason(status.conditions, "OtherLayer") == "EdgeModelInTheCloud"
    assert "small, asked first, has deployToLayer cloud" in message(status, "OtherLayer")
    near = plan(joint(), observed(cloud=answering("large", deploy_to_layer="edge"))).status
    assert reason(near.conditions, "OtherLayer") == "CloudModelAtTheEdge"
    assert conditions.find(plan(joint(), observed()).status.conditions, "OtherLayer") is None


def test_what_means_nothing_on_one_machine_is_said_once() -> None:
    subject = joint(gateway=Gateway(node_name="precision-5820"), metadata={"generation": 2})
    first = plan(subject, observed())
    assert [notice.reason for notice in first.notices] == ["NodeIsThisMachine"]
    assert plan(settled(subject, first), observed()).notices == ()
    assert plan(subject, observed(here=CLUSTER)).notices == ()
    assert plan(joint(gateway=Gateway(node_name="laptop"), metadata={"generation": 2}), observed()).notices == ()


def test_nothing_differs_the_second_time() -> None:
    first = plan(joint(), observed())
    later = reconcile(settled(joint(), first), observed(), NOW + seconds(60))
    assert later.status == first.status


def test_a_request_to_look_again_is_answered() -> None:
    asked = joint(metadata={"annotations": {"modelwright.dev/reconcile-requested-at": "now"}})
    assert plan(asked, observed()).status.last_handled_reconcile_at == "now"


def test_one_that_is_suspended_is_left_as_it_is() -> None:
    asked = joint(metadata={"annotations": {"modelwright.dev/suspend": "true"}})
    assert plan(asked, observed()) == Plan(untouched=True)


def test_one_that_is_being_deleted_runs_nothing() -> None:
    gone = replace(joint(), metadata=metadata("digits", deletion_timestamp=NOW))
    assert plan(gone, observed()) == Plan()
