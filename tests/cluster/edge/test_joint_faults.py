"""Whatever becomes of the cloud, every request is answered by the edge; and secrets of both models are used."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.cluster.builds import JSON
from tests.cluster.edge import pairs
from tests.cluster.edge.edge_team import JOINT, EdgeTeam
from tests.cluster.edge.pairs import EASY, HARD, body
from tests.cluster.rig.waiting import until
from tests.cluster.serving.team import secret
from tests.contract.pki import Authority

TOKEN = "tok-5ecret"


@contextmanager
def frozen(team: EdgeTeam, name: str) -> Iterator[None]:
    """The server of an InferenceModel hangs: its connections stay open, and nothing comes."""
    (pod,) = team.pods(name)
    processes = team.cluster.container_processes(team.namespace, pod["metadata"]["name"], "server")
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):  # the kubelet has lost patience
                os.kill(process, signal.SIGCONT)


def test_while_the_cloud_model_hangs_the_edge_answers_every_request(joined: EdgeTeam) -> None:
    joined.by("cloud", HARD)
    with joined.traffic(JOINT, body=body(HARD)) as traffic:
        traffic.more()
        with frozen(joined, "large"):
            traffic.answers(1)
            hanging = traffic.more(40)
            assert hanging.answers[-1].served_by == "edge"
        joined.ready("large")
        joined.by("cloud", HARD)
    assert traffic.report.failures == []


def test_cut_off_from_the_cloud_the_edge_answers_every_request(joined: EdgeTeam) -> None:
    joined.by("cloud", HARD)
    with joined.inside(JOINT, body=body(HARD)) as traffic:
        traffic.more()
        joined.cluster.cut(joined.node.name)
        try:
            traffic.answers(1)
            traffic.more(40)
        finally:
            joined.cluster.mend(joined.node.name)
        until(lambda: traffic.report.answers[-1].served_by == "cloud", "the cloud to be asked again", 120)
    assert traffic.report.failures == []
    joined.ready("small", "large", JOINT)
    assert joined.by("mixed", EASY, HARD) == [0, 101]


def test_a_gateway_that_starts_while_cut_off_answers_from_the_edge(joined: EdgeTeam) -> None:
    pod = joined.gateway(JOINT)["metadata"]["name"]
    with joined.inside(JOINT, body=body(HARD)) as traffic:
        traffic.more(5)
        joined.cluster.cut(joined.node.name)
        try:
            traffic.answers(1)
            joined.cluster.kill_container(joined.namespace, pod, "gateway")
            until(lambda: traffic.report.failures, "requests to find nobody", 60)
            found = len(traffic.report.failures)
            until(lambda: _well_at_the_end(traffic.report.answers, 10), "the edge to answer again", 120)
            assert len(traffic.report.failures) >= found
            assert traffic.report.answers[-1].served_by == "edge"
        finally:
            joined.cluster.mend(joined.node.name)
    joined.ready("small", "large", JOINT)
    assert joined.by("mixed", EASY, HARD) == [0, 101]


def _well_at_the_end(answers: object, count: int) -> bool:
    last = list(answers)[-count:]  # type: ignore[call-overload]
    return len(last) == count and not any(answer.failed for answer in last)


def test_tokens_and_certificates_of_both_models_are_used(
    edge: EdgeTeam, sides: dict[str, JSON], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("model", hosts=(edge.node.address, edge.cluster.node("cloud-0").address))
    shown = {"tls_crt": certificate.read_text(), "tls_key": key.read_text(), "ca_crt": authority.ca_file.read_text()}
    edge.create(secret("asked", token=TOKEN), secret("shown", "kubernetes.io/tls", **shown))
    secured = {"auth": {"tokenSecret": "asked"}, "tls": {"secret": "shown"}}
    edge.serve_here("small", **sides["edge"], **secured)
    edge.serve("large", nodeName="cloud-0", **sides["cloud"], **secured)
    edge.join("digits", edgeModel={"name": "small"}, cloudModel={"name": "large"}, **pairs.mining())
    edge.ready("small", "large", JOINT)
    assert edge.by("mixed", EASY, HARD) == [0, 101]
    for name in ("small", "large"):
        assert edge.url(name).startswith("https://")
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert edge.ask(name, body=body(EASY), ca_file=authority.ca_file).status == 401
        assert edge.ask(name, body=body(EASY), ca_file=authority.ca_file, headers=bearer).status == 200
    assert TOKEN not in edge.kubectl("get", "pods,events", "-o", "yaml")
