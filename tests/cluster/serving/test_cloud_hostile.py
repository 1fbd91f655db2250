"""Requests that are malformed, too large or meant to harm: each is answered as it deserves, and the server lives."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.cluster.operator import Operator
from tests.cluster.serving import hostile
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.team import Team, team_of

NAME = "attacked"


@pytest.fixture(scope="module")
def team(operator: Operator, shelf: Shelf) -> Iterator[Team]:
    with team_of(operator.cluster) as found:
        limits = {"limits": {"memory": "512Mi"}}
        found.serve(NAME, manifest=shelf.manifest("v1"), targetVersion="v1", resources=limits)
        found.ready(NAME)
        yield found


def restarts(team: Team) -> int:
    (pod,) = team.pods(NAME)
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"{}", b'{"instances": 7}', b'{"instances": [[1, 2, 3]]}', b"[" * 100_000]
)
def test_a_malformed_request_is_told_what_is_wrong(team: Team, body: bytes) -> None:
    reply = team.ask(NAME, body=body)
    assert reply.status == 400
    assert json.loads(reply.body)["error"]


def test_a_request_that_is_too_large_is_refused_before_it_is_read(team: Team) -> None:
    parts = urlsplit(team.url(NAME))
    request = hostile.post(f"{parts.path}:predict", b"{", f"Content-Length: {hostile.TOO_LARGE}")
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=60) as connection:
        connection.sendall(request)
        assert connection.recv(64).split()[1] == b"413"


def test_300_hostile_requests_are_answered_or_hung_up_on_and_nothing_ends(team: Team) -> None:
    with team.traffic(NAME) as traffic:
        traffic.more(5)
        answered = hostile.send(team.url(NAME))
        traffic.more(5)
    assert sum(answered.values()) == hostile.COUNT
    assert not {status for status in answered if status >= 500 and status not in {501, 505}}, answered
    assert sum(count for status, count in answered.items() if 400 <= status < 500) > hostile.COUNT // 2
    assert traffic.report.failures == []
    assert restarts(team) == 0
    assert team.value(NAME) == 1
