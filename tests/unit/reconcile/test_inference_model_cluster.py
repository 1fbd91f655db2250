"""What an InferenceModel needs on a cluster, in the cloud and at the edge, and what is said of it there."""

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
    only_workload,
    reason,
    seconds,
    served,
    server,
    state,
    version,
)

from modelwright.api.inference_model import TLS, Auth, InferenceModel, InferenceModelFile, Service
from modelwright.api.kinds import decode, to_dict
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import (
    Container,
    Exposure,
    Failure,
    ModelImage,
    Placement,
    Progress,
    SeenNotice,
    ServerStatus,
    VersionStatus,
)
from modelwright.reconcile import conditions, rollback
from modelwright.reconcile.inference_model import Observed, reconcile, server_name
from modelwright.reconcile.plan import Plan

SECURED = msgspec.structs.replace(CLUSTER, frameworks=frozenset({"onnx", "tensorflow"}), secured=frozenset({"onnx"}))
IMAGE = "registry.test/serve:1"
LOST = Failure(reason="NodeLost", message="the node edge-1 has not answered for 40 s", retryable=True)
replace = msgspec.structs.replace


def plan(
    subject: InferenceModel,
    *,
    seen: ServerStatus | None = None,
    source: ModelVersion | None = None,
    here: Any = SECURED,
    later: float = 0,
) -> Plan:
    return reconcile(subject, Observed(model_version=source, server=seen, capabilities=here), NOW + seconds(later))


def seen_by(subject: InferenceModel, **changes: Any) -> ServerStatus:
    return server(server_name(subject), **{"host": "192.0.2.7", "port": 8501, "node_name": "", **changes})


def with_status(subject: InferenceModel, after: Plan) -> InferenceModel:
    """The model with the status of the plan."""
    return replace(subject, status=after.status)


def respelled(subject: InferenceModel, **changes: Any) -> InferenceModel:
    """The model with another spec, as a user's change makes it."""
    generation = subject.metadata.generation + 1
    metadata = replace(subject.metadata, generation=generation)
    return replace(subject, spec=replace(subject.spec, **changes), metadata=metadata)


def image_model(**changes: Any) -> InferenceModel:
    return served(**{"image": IMAGE, "model_version": "", "pull_secret": "pull", **changes})


def at_the_edge(**changes: Any) -> InferenceModel:
    return served(**{"deploy_to_layer": "edge", "node_name": "edge-1", **changes})


def message(status: Any, type_: str = "Ready") -> str:
    found = conditions.find(status.conditions, type_)
    assert found is not None
    return found.message


# An image -----------------------------------------------------------------------------------------------------------


def test_an_image_is_served_as_it_is_and_its_url_has_no_path() -> None:
    subject = image_model()
    after = plan(subject, seen=seen_by(subject, serving_version=""))
    assert only_workload(after).program == Container(image=IMAGE, pull_secret="pull")
    assert after.status.url == "http://192.0.2.7:8501"
    assert (after.status.serving_version, after.status.versions) == ("", ())
    assert message(after.status) == f"image {IMAGE} is served by 1 of 1 replicas"
    assert message(after.status, "Available") == "the serving image answers requests"
    assert [entry.source.image for entry in after.status.history] == [IMAGE]
    assert after.status.resolved is None


def test_an_image_needs_no_framework_of_the_catalogue() -> None:
    assert only_workload(plan(image_model(framework_type="anything"))).program.image == IMAGE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, None),
        ({"target_version": "4"}, "targetVersion is ignored"),
        ({"manifest": manifest("4"), "target_version": "4"}, "manifest and targetVersion are ignored"),
        ({"model_version": "mv-1"}, "modelVersion is ignored"),
        ({"model_version": "gone", "manifest": manifest("4")}, "modelVersion and manifest are ignored"),
    ],
)
def test_what_an_image_overrules_is_said_once(changes: dict[str, Any], told: str | None) -> None:
    subject = image_model(**changes)
    first = plan(subject)
    assert [notice.reason for notice in first.notices] == (["SourceIgnored"] if told else [])
    assert all(f"image {IMAGE} is what is served: {told}" in notice.message for notice in first.notices)
    assert [notice.reason for notice in first.status.notices] == (["SourceIgnored"] if told else [])
    assert isinstance(only_workload(first).program, Container)
    scaled = respelled(with_status(subject, first), replicas=3)
    assert plan(scaled).notices == ()


def test_a_manifest_beside_a_model_version_is_said_on_a_cluster_only() -> None:
    subject = served(manifest=manifest("4"), metadata={"generation": 2})
    assert [notice.reason for notice in plan(subject, source=built()).notices] == ["SourceIgnored"]
    assert plan(subject, source=built(), here=HERE).notices == ()


def test_what_is_no_longer_so_is_no_longer_in_the_status() -> None:
    subject = with_status(image_model(model_version="mv-1"), plan(image_model(model_version="mv-1")))
    after = plan(respelled(subject, model_version=""))
    assert (after.status.notices, after.notices) == ((), ())


def test_an_image_that_cannot_be_pulled_is_named() -> None:
    subject = image_model()
    broken = Failure(reason="ImagePullFailed", message="no such tag", retryable=True)
    after = plan(subject, seen=seen_by(subject, up_to_date=False, ready_replicas=0, serving_version="", failure=broken))
    assert message(after.status) == f"image {IMAGE}: no such tag; trying again"
    assert reason(after.status.conditions, "Reconciling") == "ImagePullFailed"
    assert after.status.history == ()
    assert after.warn


def test_an_image_at_the_edge_runs_once() -> None:
    subject = image_model(deploy_to_layer="edge", node_selector={"zone": "a"}, replicas=2)
    wanted = only_workload(plan(subject))
    assert (wanted.replicas, wanted.exposure) == (1, None)
    assert wanted.placement == Placement("edge", "", {"zone": "a"})


def test_rollback_goes_between_images_and_versions() -> None:
    subject = served()
    subject = with_status(subject, plan(subject, source=built(), seen=seen_by(subject)))
    subject = respelled(subject, image=IMAGE)
    subject = with_status(subject, plan(subject, seen=seen_by(subject, serving_version="")))
    back = rollback.former_source(subject)
    assert back is not None
    assert rollback.spec_patch(subject, back) == {"image": None, "modelVersion": "mv-1"}
    subject = respelled(subject, image="registry.test/serve:2")
    subject = with_status(subject, plan(subject, seen=seen_by(subject, serving_version="")))
    back = rollback.former_source(subject)
    assert back is not None
    assert rollback.spec_patch(subject, back) == {"image": IMAGE}
    assert rollback.former_source(subject, IMAGE) == back


def test_versions_keep_their_numbers_while_an_image_is_served() -> None:
    subject = served(model_version="blue")
    subject = with_status(subject, plan(subject, source=built("blue")))
    subject = respelled(subject, image=IMAGE)
    assert [(each.version, each.number) for each in plan(subject).status.versions] == [("blue", 1)]


# How it is reached --------------------------------------------------------------------------------------------------


def test_a_model_in_the_cloud_is_exposed_as_its_service_says() -> None:
    service = Service(
        annotations={"example.com/internal": "true"},
        load_balancer_class="example.com/lb",
        load_balancer_source_ranges=("192.0.2.0/24",),
    )
    wanted = only_workload(plan(served(service=service), source=built()))
    assert wanted.exposure == Exposure(
        type="LoadBalancer",
        annotations={"example.com/internal": "true"},
        load_balancer_class="example.com/lb",
        load_balancer_source_ranges=("192.0.2.0/24",),
    )
    assert only_workload(plan(served(), source=built())).exposure == Exposure()


@pytest.mark.parametrize(("subject", "here"), [(served(), HERE), (at_the_edge(), SECURED)], ids=["embedded", "edge"])
def test_nothing_is_exposed_elsewhere(subject: InferenceModel, here: Any) -> None:
    wanted = only_workload(plan(subject, source=built(), here=here))
    assert (wanted.exposure, wanted.token_secret, wanted.tls_secret) == (None, "", "")


@pytest.mark.parametrize(
    ("type_", "exposed", "expected", "text"),
    [
        ("LoadBalancer", True, "Serving", ""),
        ("LoadBalancer", False, "NotExposed", "no load balancer has given its Service an address"),
        ("NodePort", False, "NotExposed", "no node that runs it has an address"),
        ("ClusterIP", False, "Serving", ""),
        ("ClusterIP", True, "Serving", ""),
    ],
)
def test_one_that_only_the_cluster_reaches_is_ready_and_says_so(
    type_: Any, exposed: bool, expected: str, text: str
) -> None:
    subject = served(service=Service(type=type_))
    after = plan(subject, source=built(), seen=seen_by(subject, host="digits.default.svc", exposed=exposed))
    wanted = {"Ready": "True", "Reconciling": "False", "Stalled": "False", "Available": "True"}
    assert state(after.status.conditions) == wanted
    assert reason(after.status.conditions) == expected
    assert text in message(after.status)
    assert after.warn is (expected == "NotExposed")
    assert after.status.url == "http://digits.default.svc:8501/v1/models/digits"
    assert [entry.source.model_version for entry in after.status.history] == ["mv-1"]


def test_one_at_the_edge_is_never_unexposed() -> None:
    subject = at_the_edge()
    after = plan(subject, source=built(), seen=seen_by(subject, exposed=False))
    assert reason(after.status.conditions) == "Serving"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.7", "http://192.0.2.7:8501/v1/models/digits"),
        ("2001:db8::7", "http://[2001:db8::7]:8501/v1/models/digits"),
        ("lb.example.com", "http://lb.example.com:8501/v1/models/digits"),
    ],
)
def test_an_address_is_spelled_as_urls_are(host: str, expected: str) -> None:
    assert plan(served(), source=built(), seen=seen_by(served(), host=host)).status.url == expected


# A token and TLS ----------------------------------------------------------------------------------------------------


def test_a_token_and_tls_are_asked_of_the_server() -> None:
    subject = served(auth=Auth(token_secret="token"), tls=TLS(secret="cert"))
    after = plan(subject, source=built(), seen=seen_by(subject))
    wanted = only_workload(after)
    assert (wanted.token_secret, wanted.tls_secret) == ("token", "cert")
    assert after.status.url == "https://192.0.2.7:8501/v1/models/digits"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"framework_type": "tensorflow", "auth": Auth(token_secret="t")}, "auth cannot be had: the server for frame"),
        ({"framework_type": "tensorflow", "tls": TLS(secret="t")}, "those that have: onnx"),
        ({"framework_type": "tensorflow", "tls": TLS(secret="t")}, "choose our server for it in the runtime catalogue"),
        ({"image": IMAGE, "tls": TLS(secret="t")}, f"tls cannot be had: image {IMAGE} is served as it is; remove tls"),
        ({"image": IMAGE, "auth": Auth(token_secret="t"), "tls": TLS(secret="t")}, "remove auth and tls, and let"),
    ],
)
def test_nobody_who_asks_for_a_token_gets_a_server_that_is_open_to_all(changes: dict[str, Any], said: str) -> None:
    after = plan(served(**changes), source=built())
    assert reason(after.status.conditions, "Stalled") == "SecurityNotSupported"
    assert said in message(after.status)
    assert (after.workloads, after.keep) == ((), frozenset({server_name(served())}))


def test_on_one_machine_auth_is_refused_as_ever() -> None:
    after = plan(served(auth=Auth(token_secret="t")), source=built(), here=replace(HERE, secured=HERE.frameworks))
    assert reason(after.status.conditions, "Stalled") == "NotImplemented"


@pytest.mark.parametrize(
    ("before", "changes", "mid", "end"),
    [
        ({}, {"tls": TLS(secret="c")}, "http://h:1/v1/models/digits", "https://h:1/v1/models/digits"),
        ({"tls": TLS(secret="c")}, {"tls": None}, "https://h:1/v1/models/digits", "http://h:1/v1/models/digits"),
        ({}, {"model_name": "new"}, "http://h:1/v1/models/digits", "http://h:1/v1/models/new"),
        ({}, {"image": IMAGE}, "http://h:1/v1/models/digits", "http://h:1"),
    ],
    ids=["tls", "no tls", "another name", "an image"],
)
def test_a_url_is_that_of_what_answers_until_all_is_taken_over(
    before: dict[str, Any], changes: dict[str, Any], mid: str, end: str
) -> None:
    subject = served(**before)
    subject = with_status(subject, plan(subject, source=built(), seen=seen_by(subject)))
    subject = respelled(subject, **changes)
    rolling = seen_by(subject, host="h", port=1, up_to_date=False)
    during = plan(subject, source=built(), seen=rolling)
    assert during.status.url == mid
    done = seen_by(subject, host="h", port=1)
    assert plan(with_status(subject, during), source=built(), seen=done).status.url == end


def test_what_is_left_as_it_is_keeps_its_url() -> None:
    """It runs what it was told before: `up to date` says nothing of the spec as it is now."""
    subject = served()
    subject = with_status(subject, plan(subject, source=built(), seen=seen_by(subject)))
    waiting = respelled(subject, model_version="mv-9", tls=TLS(secret="c"))
    assert plan(waiting, seen=seen_by(subject)).status.url == "http://192.0.2.7:8501/v1/models/digits"


# What cannot be served ----------------------------------------------------------------------------------------------


def test_a_framework_that_is_unknown_is_said_with_those_that_there_are() -> None:
    after = plan(served(framework_type="caffe"), source=built())
    assert reason(after.status.conditions, "Stalled") == "FrameworkUnavailable"
    assert "there is: onnx, tensorflow; an admin can add" in message(after.status)
    assert "pip install" not in message(plan(served(framework_type="sklearn"), source=built()).status)


@pytest.mark.parametrize(
    ("here", "expected"), [(SECURED, "DownloadPathForbidden"), (HERE, "Starting")], ids=["cluster", "embedded"]
)
def test_a_file_is_of_no_machine_of_a_cluster(here: Any, expected: str) -> None:
    local = InferenceModelFile(version="4", download_url="file:///models/4")
    subject = served(model_version="", manifest=(local, *manifest("5")), target_version="4")
    assert reason(plan(subject, here=here).status.conditions) == expected
    other = respelled(subject, target_version="5")
    assert reason(plan(other, here=here).status.conditions) == "Starting"


# A ModelVersion that goes -------------------------------------------------------------------------------------------


def serving(**changes: Any) -> InferenceModel:
    """A model that has been served, with the status that says so."""
    subject = served(**changes)
    return with_status(subject, plan(subject, source=built(), seen=seen_by(subject)))


def test_what_a_version_is_taken_to_be_stands_in_the_status() -> None:
    subject = serving()
    assert subject.status.resolved is not None
    assert subject.status.resolved.image == f"127.0.0.1:5000/modelhub/digits@{DIGEST}"
    assert decode(InferenceModel, to_dict(subject)) == subject


@pytest.mark.parametrize(
    ("source", "expected"),
    [(None, "ModelVersionNotFound"), (version(), "ModelVersionNotReady")],
    ids=["deleted", "made anew, without an image"],
)
def test_a_version_that_is_deleted_goes_on_being_served_and_scaled(source: Any, expected: str) -> None:
    subject = respelled(serving(), replicas=3)
    after = plan(subject, source=source, seen=seen_by(subject, up_to_date=False, replicas=3, ready_replicas=1))
    wanted = only_workload(after)
    assert wanted.replicas == 3
    assert wanted.program.versions[0].source == ModelImage(image=f"127.0.0.1:5000/modelhub/digits@{DIGEST}")
    assert reason(after.status.conditions) == expected
    assert "until then what it was is served: starting version mv-1, 1 of 3 replicas" in message(after.status)
    assert state(after.status.conditions)["Available"] == "True"
    assert (after.status.resolved, after.status.history) == (subject.status.resolved, subject.status.history)

    done = plan(with_status(subject, after), source=source, seen=seen_by(subject, replicas=3, ready_replicas=3))
    assert only_workload(done) == wanted
    assert "version mv-1 is served by 3 of 3 replicas" in message(done.status)
    assert state(done.status.conditions) == {
        "Ready": "False",
        "Reconciling": "True",
        "Stalled": "False",
        "Available": "True",
    }


def test_the_server_is_the_same_before_and_after_its_version_goes() -> None:
    subject = serving()
    there = plan(subject, source=built(), seen=seen_by(subject))
    gone = plan(with_status(subject, there), seen=seen_by(subject))
    assert gone.workloads == there.workloads
    back = plan(with_status(subject, gone), source=built(), seen=seen_by(subject))
    assert (back.workloads, reason(back.status.conditions)) == (there.workloads, "Serving")


def test_a_failure_comes_before_a_version_that_is_gone() -> None:
    gone = Failure(reason="ImageNotFound", message="the registry has it no more")
    after = plan(serving(), seen=seen_by(served(), up_to_date=False, failure=gone))
    assert reason(after.status.conditions, "Stalled") == "ImageNotFound"
    assert "the registry has it no more; besides, ModelVersion mv-1 does not exist" in message(after.status)


def test_no_replicas_of_a_version_that_is_gone_are_stopped() -> None:
    subject = respelled(serving(), replicas=0)
    after = plan(subject, seen=seen_by(subject, replicas=0, ready_replicas=0))
    assert (after.workloads, after.keep) == ((), frozenset())
    assert message(after.status).endswith("create it, or name another")


def test_only_the_version_that_was_served_is_remembered() -> None:
    after = plan(respelled(serving(), model_version="mv-9"), seen=seen_by(served()))
    assert (after.workloads, after.keep) == ((), frozenset({server_name(served())}))
    assert "left as it is" in message(after.status)
    assert reason(after.status.conditions) == "ModelVersionNotFound"
    other = respelled(serving(), model_version="", manifest=manifest("4"), target_version="4")
    assert plan(other).status.resolved is None


def test_one_that_was_never_had_is_waited_for() -> None:
    after = plan(served())
    assert (after.workloads, reason(after.status.conditions)) == ((), "ModelVersionNotFound")


# The edge -----------------------------------------------------------------------------------------------------------


def test_where_it_runs_is_passed_on_and_the_node_that_was_chosen_comes_back() -> None:
    subject = served(deploy_to_layer="edge", node_name="", node_selector={"zone": "a"})
    after = plan(subject, source=built(), seen=seen_by(subject, node_name="edge-7"))
    assert only_workload(after).placement == Placement("edge", "", {"zone": "a"})
    assert only_workload(after).program.in_place
    assert after.status.node_name == "edge-7"


@pytest.mark.parametrize(
    ("failure", "type_"),
    [
        (Failure("NodeNotFound", "there is no node edge-1", retryable=True), "Reconciling"),
        (Failure("Unschedulable", "its port is taken by digits-2", retryable=True), "Reconciling"),
        (Failure("ImagePullFailed", "no such image", retryable=True), "Reconciling"),
        (Failure("PortTaken", "port 8501 of the node is in use", retryable=True), "Reconciling"),
        (Failure("PodSecurityForbids", "label the namespace"), "Stalled"),
        (Failure("ModelInvalid", "it cannot be loaded"), "Stalled"),
    ],
)
def test_what_keeps_it_from_running_is_said_with_its_own_reason(failure: Failure, type_: str) -> None:
    subject = at_the_edge()
    seen = seen_by(subject, up_to_date=False, ready_replicas=0, replicas=0, serving_version="", failure=failure)
    after = plan(subject, source=built(), seen=seen)
    assert reason(after.status.conditions, type_) == failure.reason
    assert state(after.status.conditions)[type_] == "True"
    assert failure.message in message(after.status)
    assert reason(after.status.conditions, "Available") == "NoReadyReplica"
    assert after.workloads


AWAY: dict[str, Any] = {
    "ready_replicas": 0,
    "serving_version": "",
    "up_to_date": False,
    "failure": LOST,
    "node_name": "edge-1",
}


def test_of_a_node_that_does_not_answer_nothing_is_claimed_and_nothing_is_removed() -> None:
    subject = at_the_edge()
    subject = with_status(subject, plan(subject, source=built(), seen=seen_by(subject)))
    after = plan(subject, source=built(), seen=seen_by(subject, **AWAY))
    assert state(after.status.conditions) == {
        "Ready": "Unknown",
        "Reconciling": "True",
        "Stalled": "False",
        "Available": "Unknown",
    }
    assert reason(after.status.conditions) == "NodeLost"
    assert reason(after.status.conditions, "Available") == "NodeUnreachable"
    assert "the node edge-1 does not answer" in message(after.status, "Available")
    assert "has not answered for 40 s; nothing of it is removed" in message(after.status)
    assert after.workloads == plan(subject, source=built(), seen=seen_by(subject)).workloads
    assert after.status.history == subject.status.history
    assert after.warn

    back = plan(with_status(subject, after), source=built(), seen=seen_by(subject))
    assert (reason(back.status.conditions), state(back.status.conditions)["Available"]) == ("Serving", "True")


def test_a_version_that_goes_while_the_node_is_away_is_said_beside_it() -> None:
    subject = at_the_edge()
    subject = with_status(subject, plan(subject, source=built(), seen=seen_by(subject)))
    after = plan(subject, seen=seen_by(subject, **AWAY))
    assert reason(after.status.conditions) == "NodeLost"
    assert "besides, ModelVersion mv-1 does not exist" in message(after.status)


def test_in_the_cloud_a_lost_node_is_a_failure_like_others() -> None:
    after = plan(served(), source=built(), seen=seen_by(served(), **AWAY))
    assert state(after.status.conditions)["Ready"] == "False"
    assert reason(after.status.conditions, "Reconciling") == "NodeLost"
    assert reason(after.status.conditions, "Available") == "NoReadyReplica"


def test_a_server_that_still_answers_is_not_away() -> None:
    subject = at_the_edge()
    after = plan(subject, source=built(), seen=seen_by(subject, up_to_date=False, failure=LOST))
    assert state(after.status.conditions)["Available"] == "True"
    assert reason(after.status.conditions, "Reconciling") == "NodeLost"


# What is told once --------------------------------------------------------------------------------------------------


def test_what_the_server_has_to_say_is_told_once_and_stands_in_the_status() -> None:
    subject = at_the_edge()
    chosen = SeenNotice(reason="NodeChosen", message="2 nodes have the labels, and edge-1 was chosen")
    first = plan(subject, source=built(), seen=seen_by(subject, notices=(chosen, chosen)))
    assert [(each.type, each.reason, each.message) for each in first.notices] == [
        ("Normal", "NodeChosen", chosen.message)
    ]
    subject = with_status(subject, first)
    assert [each.reason for each in subject.status.notices] == ["NodeChosen"]
    assert decode(InferenceModel, to_dict(subject)) == subject
    assert plan(subject, source=built(), seen=seen_by(subject, notices=(chosen,))).notices == ()
    other = replace(chosen, message="3 nodes have the labels, and edge-1 was chosen")
    again = plan(subject, source=built(), seen=seen_by(subject, notices=(other,)))
    assert [each.message for each in again.notices] == [other.message]


def test_what_holds_is_told_as_well_as_what_serves() -> None:
    chosen = SeenNotice(reason="NodeChosen", message="edge-1 was chosen")
    after = plan(at_the_edge(), seen=seen_by(at_the_edge(), notices=(chosen,)))
    assert reason(after.status.conditions) == "ModelVersionNotFound"
    assert [each.reason for each in after.notices] == ["NodeChosen"]


def test_more_words_than_a_status_holds_are_cut() -> None:
    many = tuple(SeenNotice(reason="R" * 300, message=f"{number} " + "word " * 2000) for number in range(20))
    after = plan(served(), source=built(), seen=seen_by(served(), notices=many))
    subject = with_status(served(), after)
    assert len(subject.status.notices) == 16
    assert decode(InferenceModel, to_dict(subject)) == subject
    assert plan(subject, source=built(), seen=seen_by(served(), notices=many)).notices == ()


# Progress -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("done", "total", "told"),
    [
        (1_000, 2_000, "1,000 of 2,000 bytes"),
        (1_039, 2_000, "1,000 of 2,000 bytes"),
        (1_040, 2_000, "1,040 of 2,000 bytes"),
        (2_000, 2_000, "2,000 of 2,000 bytes"),
        (0, 2_000, "0 of 2,000 bytes"),
        (1_234_567, 0, "1,200,000 bytes"),
    ],
)
def test_a_download_is_told_in_steps(done: int, total: int, told: str) -> None:
    fetching = VersionStatus(version="mv-1", phase="Fetching", progress=Progress(done, total))
    seen = seen_by(served(), up_to_date=False, ready_replicas=0, serving_version="", versions=(fetching,))
    after = plan(served(), source=built(), seen=seen)
    assert message(after.status) == f"fetching version mv-1, {told}"


# Again --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "seen"),
    [
        (image_model(manifest=manifest("4")), {"serving_version": ""}),
        (served(), {"exposed": False}),
        (at_the_edge(), AWAY),
        (at_the_edge(), {"notices": (SeenNotice(reason="NodeChosen", message="edge-1"),)}),
        (served(auth=Auth(token_secret="t")), {}),
    ],
    ids=["image", "not exposed", "away", "chosen", "token"],
)
@pytest.mark.parametrize("source", [built(), None], ids=["there", "gone"])
def test_nothing_differs_the_second_time(subject: InferenceModel, seen: dict[str, Any], source: Any) -> None:
    looked = seen_by(subject, **seen)
    first = plan(subject, source=source, seen=looked)
    settled = with_status(subject, first)
    assert decode(InferenceModel, to_dict(settled)) == settled
    again = plan(settled, source=source, seen=looked, later=60)
    assert (again.status, again.workloads, again.notices) == (first.status, first.workloads, ())
