"""Edge and cloud answer as one: a gateway on the edge node asks the edge model first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.builds import JSON
from tests.cluster.edge import pairs
from tests.cluster.edge.edge_team import JOINT, PORTS, EdgeTeam
from tests.cluster.edge.pairs import EASY, HARD, body
from tests.cluster.serving import hostile
from tests.cluster.serving.team import INFERENCE_MODEL, ask

GATEWAY = "gateway"


# How it answers -----------------------------------------------------------------------------------------------------


def test_the_gateway_is_on_the_edge_node_at_its_port(joined: EdgeTeam) -> None:
    status = joined.status(JOINT)
    port = joined.model(JOINT)["spec"]["gateway"]["port"]
    assert status["url"] == f"http://{joined.node.address}:{port}/v1/models/digits"
    assert status["nodeName"] == joined.node.name
    assert joined.gateway(JOINT)["spec"]["hostNetwork"] is True


def test_the_edge_answers_what_it_is_sure_of_and_the_cloud_the_hard_rows(joined: EdgeTeam) -> None:
    assert joined.by("mixed", EASY, HARD, EASY) == [0, 101, 0]
    assert joined.by("edge", EASY) == [0]
    assert joined.by("cloud", HARD) == [101]
    url = joined.url(JOINT).replace("/v1/models/", "/v2/models/") + "/infer"
    reply = ask(url, body=pairs.infer_body(HARD, EASY))
    assert (reply.json["outputs"][0]["data"], reply.headers["x-served-by"]) == ([101, 0], "mixed")


def test_it_tells_what_it_does_in_metrics(joined: EdgeTeam) -> None:
    joined.by("mixed", EASY, HARD)
    base = joined.url(JOINT).partition("/v1/")[0]
    metrics = ask(f"{base}/metrics", body=None).body.decode()
    for side in ("edge", "cloud"):
        (line,) = [
            line
            for line in metrics.splitlines()
            if line.startswith("modelwright_gateway_rows_total") and f'served_by="{side}"' in line
        ]
        assert float(line.split()[-1]) >= 1


def test_hard_rows_are_kept_on_the_node_with_what_both_said(joined: EdgeTeam) -> None:
    joined.by("mixed", EASY, HARD)
    joined.wait(lambda: joined.status(JOINT).get("keptBytes"), "kept rows to be told of", JOINT)
    folder = Path(joined.node.root, joined.status(JOINT)["keptPath"].lstrip("/"))
    joined.wait(lambda: list(folder.glob("hard-*.jsonl")), "a file of hard rows")
    lines = [line for file in folder.glob("hard-*.jsonl") for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    assert {row["edge"]["outputs"]["label"] for row in rows} == {1}
    assert 101 in {row["cloud"]["outputs"]["label"] for row in rows if row["cloud"]}


def test_300_hostile_requests_end_nothing(joined: EdgeTeam) -> None:
    started = joined.gateway(JOINT)
    with joined.traffic(JOINT, body=body(EASY)) as traffic:
        traffic.more(5)
        answered = hostile.send(joined.url(JOINT))
        traffic.more(5)
    assert sum(answered.values()) == hostile.COUNT
    assert not {status for status in answered if status >= 500 and status not in {501, 503, 505}}, answered
    assert traffic.report.failures == []
    pod = joined.gateway(JOINT)
    assert pod["metadata"]["uid"] == started["metadata"]["uid"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert joined.by("mixed", EASY, HARD) == [0, 101]


# When something is missing ------------------------------------------------------------------------------------------


@contextmanager
def scaled_to_zero(team: EdgeTeam, name: str) -> Iterator[None]:
    """An InferenceModel without a replica; it has one again, and answers, afterwards."""
    team.kubectl("scale", INFERENCE_MODEL, name, "--replicas=0")
    try:
        yield
    finally:
        team.kubectl("scale", INFERENCE_MODEL, name, "--replicas=1")
        team.ready(name, JOINT)


def test_without_the_edge_model_the_cloud_answers_all_and_this_is_said(joined: EdgeTeam) -> None:
    with scaled_to_zero(joined, "small"):
        assert joined.by("cloud", EASY) == [100]
        joined.said(JOINT, "CloudOnly")
        assert joined.conditions(JOINT)["Available"]["status"] == "True"
        assert "large answers all" in joined.event(JOINT, "EdgeModelScaledToZero")
    assert joined.by("edge", EASY) == [0]


def test_without_the_cloud_model_the_edge_answers_all_and_no_request_fails(joined: EdgeTeam) -> None:
    joined.by("cloud", HARD)
    with joined.traffic(JOINT, body=body(HARD)) as traffic:
        traffic.more()
        with scaled_to_zero(joined, "large"):
            traffic.answers(1)
            joined.said(JOINT, "EdgeOnly")
            assert "small answers all" in joined.event(JOINT, "CloudModelScaledToZero")
        joined.by("cloud", HARD)
    assert traffic.report.failures == []
    assert {"edge", "cloud"} == set(traffic.report.served_by)


def test_a_gateway_that_is_killed_comes_back(joined: EdgeTeam) -> None:
    pod = joined.gateway(JOINT)["metadata"]
    joined.cluster.kill_container(joined.namespace, pod["name"], GATEWAY)
    joined.wait(
        lambda: joined.gateway(JOINT)["status"]["containerStatuses"][0]["restartCount"] >= 1, "a new start", JOINT
    )
    joined.ready(JOINT)
    assert joined.by("mixed", EASY, HARD) == [0, 101]
    assert joined.gateway(JOINT)["metadata"]["uid"] == pod["uid"]


def test_a_changed_policy_is_taken_over_without_a_new_start(joined: EdgeTeam) -> None:
    before = joined.gateway(JOINT)
    with joined.traffic(JOINT, body=body(HARD)) as traffic:
        for spec, answer in ((pairs.mining(0.1), 1), (pairs.mining(), 101)):
            joined.kubectl("patch", JOINT, "--type=merge", "--patch", json.dumps({"spec": spec}))
            joined.ready(JOINT)
            traffic.more(5)
            assert joined.by("edge" if answer == 1 else "cloud", HARD) == [answer]
    assert traffic.report.failures == []
    after = joined.gateway(JOINT)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert (
        after["status"]["containerStatuses"][0]["restartCount"]
        == (before["status"]["containerStatuses"][0]["restartCount"])
    )


# Other ways to write it ---------------------------------------------------------------------------------------------


def test_models_that_stand_in_the_service_are_made_and_go_with_it(joined: EdgeTeam, sides: dict[str, JSON]) -> None:
    small = {"deployToLayer": "edge", "nodeName": joined.node.name, "servingPort": next(PORTS)}
    large = {"deployToLayer": "cloud", "nodeName": "cloud-0", "service": {"type": "NodePort"}}
    joined.join(
        "inline",
        edgeModel={"spec": {"modelName": "small", **small, **sides["edge"]}},
        cloudModel={"spec": {"modelName": "large", **large, **sides["cloud"]}},
    )
    joined.ready("jis/inline")
    assert joined.by("mixed", EASY, HARD, name="jis/inline") == [0, 101]
    uids = [joined.uid(name) for name in ("inline-edge", "inline-cloud", "jis/inline")]
    joined.kubectl("delete", "jis", "inline", "--timeout=120s")
    joined.wait(lambda: [joined.owned(uid) for uid in uids] == [[], [], []], "all of it to be gone")
    assert "inline" not in joined.kubectl("get", INFERENCE_MODEL, "-o", "name")
