"""What a JointInferenceService makes of its models and its gateway on a cluster, and what is said of it there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.reconcile.make import CLUSTER, HERE, NOW, only_workload, reason, seconds, state
from tests.unit.reconcile.make_joint import CLOUD_SPEC, EDGE_SPEC, answering, gateway, joint, observed, settled

from modelwright.api.inference_model import TLS, Auth, InferenceModel, InferenceModelSpec, Service
from modelwright.api.joint_inference_service import Gateway, JointInferenceService, JointModel
from modelwright.api.kinds import decode, to_dict
from modelwright.api.meta import Condition
from modelwright.ports.workloads import AskedModel, Failure, Placement, SeenNotice, ServerStatus, Upstream
from modelwright.reconcile import conditions
from modelwright.reconcile.joint_inference_service import Observed, edge_name, gateway_name, reconcile
from modelwright.reconcile.owners import owner_reference
from modelwright.reconcile.plan import Plan

TOKEN, CERT = Auth(token_secret="token"), TLS(secret="cert")
LARGE_URL = "http://127.0.0.1:41002/v1/models/large"
LOST = Failure(reason="NodeLost", message="the node edge-1 does not answer", retryable=True)
AWAY: dict[str, Any] = {"ready_replicas": 0, "up_to_date": False, "failure": LOST, "node_name": "edge-1"}
replace = msgspec.structs.replace


def plan(subject: JointInferenceService, seen: Observed, *, later: float = 0) -> Plan:
    return reconcile(subject, seen, NOW + seconds(later))


def here(**changes: Any) -> Observed:
    return observed(here=CLUSTER, **changes)


def message(status: Any, type_: str = "Ready") -> str:
    found = conditions.find(status.conditions, type_)
    assert found is not None
    return found.message


def told(after: Plan, side: str) -> tuple[str, Upstream]:
    """Where and how the gateway asks this side."""
    program = only_workload(after).program
    return (program.edge_url, program.edge) if side == "edge" else (program.cloud_url, program.cloud)


def secured_cloud(**changes: Any) -> InferenceModel:
    return answering("large", auth=TOKEN, tls=CERT, url="https://192.0.2.9:8501/v1/models/large", **changes)


# Models that ask for a token or speak TLS ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Upstream()),
        ({"auth": TOKEN}, Upstream(token_secret="token")),
        ({"tls": CERT}, Upstream(tls_secret="cert")),
        ({"auth": TOKEN, "tls": CERT}, Upstream(token_secret="token", tls_secret="cert")),
    ],
)
@pytest.mark.parametrize("side", ["edge", "cloud"])
def test_the_gateway_is_given_what_a_model_asks_for(side: str, changes: dict[str, Any], expected: Upstream) -> None:
    models = {side: answering("small" if side == "edge" else "large", **changes)}
    after = plan(joint(), here(**models))
    assert told(after, side)[1] == expected
    assert state(after.status.conditions)["Ready"] == "True"
    shown = after.status.edge_model if side == "edge" else after.status.cloud_model
    assert (shown.token_secret, shown.tls_secret) == (expected.token_secret, expected.tls_secret)


def test_on_one_machine_the_gateway_speaks_neither_as_ever() -> None:
    after = plan(joint(), observed(cloud=answering("large", auth=TOKEN)))
    assert reason(after.status.conditions, "Stalled") == "NotImplemented"
    assert told(after, "cloud") == (LARGE_URL, Upstream())


def test_the_gateway_itself_is_open_and_not_exposed() -> None:
    wanted = only_workload(plan(joint(), here(cloud=secured_cloud())))
    assert (wanted.exposure, wanted.token_secret, wanted.tls_secret, wanted.replicas) == (None, "", "", 1)


@pytest.mark.parametrize(
    "gone",
    [
        None,
        secured_cloud(deleted=True),
        answering("large", available=False, url="", auth=TOKEN, tls=CERT),
        answering("large", available=False, url="", auth=Auth(token_secret="another")),
    ],
    ids=["deleted", "going", "down", "down, and to be another"],
)
def test_a_model_that_disappears_changes_nothing_of_the_gateway(gone: InferenceModel | None) -> None:
    first = plan(joint(), here(cloud=secured_cloud()))
    after = plan(settled(joint(), first), here(cloud=gone))
    assert after.workloads == first.workloads
    assert told(after, "cloud") == (
        "https://192.0.2.9:8501/v1/models/large",
        Upstream(token_secret="token", tls_secret="cert"),
    )


def test_what_a_model_will_ask_for_is_known_before_its_address() -> None:
    """So that the gateway has not to be given a Secret later, which takes another Pod."""
    inline = joint(cloud_model=JointModel(spec=replace(CLOUD_SPEC, auth=TOKEN)))
    assert told(plan(inline, here(cloud=None)), "cloud") == ("", Upstream(token_secret="token"))
    starting = answering("large", available=False, url="", auth=TOKEN)
    assert told(plan(joint(), here(cloud=starting)), "cloud") == ("", Upstream(token_secret="token"))


def test_another_model_is_asked_in_its_own_way_once_it_has_an_address() -> None:
    subject = settled(joint(), plan(joint(), here(cloud=secured_cloud())))
    renamed = replace(subject, spec=replace(subject.spec, cloud_model=JointModel(name="other")))
    starting = answering("other", spec=CLOUD_SPEC, available=False, url="")
    before = plan(renamed, here(cloud=starting))
    assert told(before, "cloud")[1] == Upstream(token_secret="token", tls_secret="cert")
    up = answering("other", spec=CLOUD_SPEC)
    after = plan(settled(renamed, before), here(cloud=up))
    assert told(after, "cloud") == (up.status.url, Upstream())


def test_a_serving_image_is_asked_by_the_name_of_its_model() -> None:
    image = answering("large", image="registry.test/serve:1", url="http://192.0.2.9:8501")
    after = plan(joint(), here(cloud=image))
    assert told(after, "cloud")[0] == "http://192.0.2.9:8501/v1/models/large"
    again = plan(settled(joint(), after), here(cloud=None))
    assert told(again, "cloud")[0] == "http://192.0.2.9:8501/v1/models/large"


# Where the gateway runs ---------------------------------------------------------------------------------------------

BY_SELECTOR = replace(EDGE_SPEC, node_name="", node_selector={"a": "b"})


@pytest.mark.parametrize(
    ("subject", "edge", "expected"),
    [
        (joint(), answering("small"), Placement("edge", "laptop")),
        (joint(), answering("small", spec=BY_SELECTOR, node_name="edge-7"), Placement("edge", "edge-7")),
        (joint(), answering("small", spec=BY_SELECTOR, node_name=""), None),
        (joint(), None, None),
        (joint(edge_model=JointModel(spec=EDGE_SPEC)), None, Placement("edge", "laptop")),
        (joint(edge_model=JointModel(spec=BY_SELECTOR)), None, None),
        (joint(gateway=Gateway(node_name="edge-9")), None, Placement("edge", "edge-9")),
        (joint(gateway=Gateway(node_selector={"a": "b"})), None, Placement("edge", "", {"a": "b"})),
        (joint(), answering("small", deploy_to_layer="cloud"), Placement("cloud", "laptop")),
    ],
)
def test_it_runs_beside_the_edge_model_unless_asked_otherwise(
    subject: JointInferenceService, edge: InferenceModel | None, expected: Placement | None
) -> None:
    after = plan(subject, here(edge=edge, gateway=None))
    assert [workload.placement for workload in after.workloads] == ([expected] if expected else [])
    assert after.keep == {gateway_name(subject)}
    assert ("waits to know the node" in message(after.status)) is (expected is None)


def test_it_stays_and_is_told_news_when_the_edge_model_disappears() -> None:
    first = plan(joint(), here())
    moved = answering("large", url="http://192.0.2.10:8501/v1/models/large")
    after = plan(settled(joint(), first), here(edge=None, cloud=moved))
    assert only_workload(after).placement == only_workload(first).placement
    assert told(after, "cloud")[0] == moved.status.url
    assert told(after, "edge") == told(first, "edge")
    assert reason(after.status.conditions, "Available") == "CloudOnly"
    assert after.status.edge_model.layer == "edge"


def test_beside_an_edge_model_in_the_cloud_it_is_left_as_it_is_when_that_disappears() -> None:
    subject = joint()
    for edge in (answering("small", deploy_to_layer="cloud"), None, None):
        after = plan(subject, here(edge=edge))
        subject = settled(subject, after)
    assert after.workloads == ()
    assert after.keep == {gateway_name(joint())}
    assert after.status.edge_model.layer == "cloud"


def test_it_follows_the_edge_model_to_another_node() -> None:
    first = plan(joint(), here())
    moved = answering("small", spec=replace(EDGE_SPEC, node_name="edge-2"), node_name="edge-2")
    assert only_workload(plan(settled(joint(), first), here(edge=moved))).placement == Placement("edge", "edge-2")


# What is said -------------------------------------------------------------------------------------------------------


def away_model() -> InferenceModel:
    model = answering("small", available=False, url="")
    told = (
        Condition("Ready", "Unknown", "NodeLost", "version mv-1: the node edge-1 does not answer"),
        Condition("Reconciling", "True", "NodeLost", "version mv-1: the node edge-1 does not answer"),
        Condition("Stalled", "False", "NodeLost"),
        Condition("Available", "Unknown", "NodeUnreachable"),
    )
    return replace(model, status=replace(model.status, conditions=told))


def test_of_a_node_that_does_not_answer_nothing_is_claimed_and_nothing_is_changed() -> None:
    first = plan(joint(), here())
    subject = settled(joint(), first)
    after = plan(subject, here(edge=away_model(), gateway=gateway(joint(), **AWAY)))
    assert state(after.status.conditions) == {
        "Ready": "Unknown",
        "Reconciling": "True",
        "Stalled": "False",
        "Available": "Unknown",
    }
    assert (reason(after.status.conditions), reason(after.status.conditions, "Available")) == (
        "NodeLost",
        "NodeUnreachable",
    )
    assert "the node edge-1 does not answer" in message(after.status, "Available")
    assert "nothing of it is removed" in message(after.status)
    assert after.workloads == first.workloads
    assert after.warn
    assert (after.status.url, after.status.node_name) == ("", "edge-1")
    back = plan(settled(joint(), after), here())
    assert (reason(back.status.conditions), back.status.url) == ("Serving", first.status.url)


def test_a_gateway_that_answers_is_not_away_although_its_edge_model_is() -> None:
    after = plan(settled(joint(), plan(joint(), here())), here(edge=away_model()))
    assert state(after.status.conditions)["Ready"] == "False"
    assert reason(after.status.conditions, "Reconciling") == "EdgeModelNotReady"
    assert reason(after.status.conditions, "Available") == "CloudOnly"


def test_what_a_person_must_mend_is_stalled_although_the_gateway_is_away() -> None:
    wrong = answering("large", available=False, url="", stalled="no such framework")
    after = plan(joint(), here(cloud=wrong, gateway=gateway(joint(), **AWAY)))
    assert reason(after.status.conditions, "Stalled") == "CloudModelStalled"
    assert state(after.status.conditions)["Available"] == "Unknown"


@pytest.mark.parametrize(
    ("cloud", "hinted"),
    [
        (answering("large", service=Service(type="ClusterIP"), url="http://large.default.svc:1/v1/models/large"), True),
        (answering("large"), False),
    ],
    ids=["inside", "outside"],
)
def test_an_address_of_the_cluster_alone_is_said_where_the_gateway_cannot_use_it(
    cloud: InferenceModel, hinted: bool
) -> None:
    unknown = Failure(reason="UrlNotKnown", message="no such host", retryable=True)
    found = gateway(joint(), asked=(AskedModel(side="cloud", failure=unknown),))
    assert ("is known inside the cluster alone" in message(plan(joint(), here(cloud=cloud, gateway=found)).status)) is (
        hinted
    )
    assert reason(plan(joint(), here(cloud=cloud)).status.conditions) == "Serving"


def test_a_model_that_is_not_exposed_is_inside_too() -> None:
    cloud = answering("large")
    inside = (Condition("Ready", "True", "NotExposed"), Condition("Available", "True", "Serving"))
    cloud = replace(cloud, status=replace(cloud.status, conditions=inside))
    unknown = Failure(reason="UrlNotKnown", message="no such host", retryable=True)
    found = gateway(joint(), asked=(AskedModel(side="cloud", failure=unknown),))
    assert "service.type LoadBalancer or NodePort" in message(plan(joint(), here(cloud=cloud, gateway=found)).status)


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    after = plan(joint(), here(gateway=gateway(joint(), host="2001:db8::1", port=8500)))
    assert after.status.url == "http://[2001:db8::1]:8500/v1/models/digits"


def test_what_the_gateway_has_to_say_is_told_once() -> None:
    chosen = SeenNotice(reason="NodeChosen", message="edge-1 was chosen")
    subject = joint()
    seen = here(gateway=gateway(subject, notices=(chosen,)))
    first = plan(subject, seen)
    assert [each.reason for each in first.notices] == ["NodeChosen"]
    assert [each.message for each in first.status.notices] == ["edge-1 was chosen"]
    assert plan(settled(subject, first), seen).notices == ()


# Again --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"cloud": secured_cloud()},
        {"cloud": None},
        {"edge": away_model(), "gateway": gateway(joint(), **AWAY)},
        {"gateway": gateway(joint(), notices=(SeenNotice(reason="NodeChosen", message="edge-1"),))},
    ],
    ids=["secured", "missing", "away", "chosen"],
)
def test_nothing_differs_the_second_time(changes: dict[str, Any]) -> None:
    first = plan(joint(), here(**changes))
    subject = settled(joint(), first)
    assert decode(JointInferenceService, to_dict(subject)) == subject
    again = plan(subject, here(**changes), later=60)
    assert (again.status, again.workloads, again.notices) == (first.status, first.workloads, ())


def inline_edge(spec: InferenceModelSpec, **changes: Any) -> tuple[JointInferenceService, InferenceModel]:
    subject = joint(edge_model=JointModel(spec=spec))
    child = answering(edge_name(subject), spec=spec, owners=(owner_reference(subject),), **changes)
    return subject, child


def test_an_inline_model_with_a_token_is_made_and_asked_with_it() -> None:
    subject, child = inline_edge(replace(EDGE_SPEC, auth=TOKEN))
    (made,) = plan(subject, here(edge=None)).create
    assert made.spec.auth == TOKEN
    after = plan(subject, here(edge=child, owned=(child,)))
    assert told(after, "edge") == (child.status.url, Upstream(token_secret="token"))
    assert state(after.status.conditions)["Ready"] == "True"


def test_embedded_and_cluster_tell_the_gateway_the_same_of_plain_models() -> None:
    programs = [only_workload(plan(joint(), observed(here=place))).program for place in (HERE, CLUSTER)]
    assert programs[0] == programs[1]


def test_a_gateway_that_is_not_there_yet_is_starting() -> None:
    gone: ServerStatus | None = None
    after = plan(joint(), here(gateway=gone))
    assert (reason(after.status.conditions), after.status.url) == ("Starting", "")
    assert reason(after.status.conditions, "Available") == "NoReadyGateway"
