"""Changes of a model that is asked all the time: no request fails, and what cannot serve does not come to serve."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.operator import Operator
from tests.cluster.serving.conftest import Shelf
from tests.cluster.serving.team import Team, team_of
from tests.cluster.serving.traffic import Report, Traffic

NAME = "rolled"


@pytest.fixture(scope="module")
def rolled(operator: Operator, shelf: Shelf) -> Iterator[Team]:
    """Two replicas of v1, which the tests of this module change one after the other."""
    with team_of(operator.cluster) as team:
        team.serve(NAME, manifest=shelf.manifest("v1", "v2", "v3", "bad"), targetVersion="v1", replicas=2)
        team.ready(NAME)
        yield team


def names(team: Team) -> set[str]:
    return {pod["metadata"]["name"] for pod in team.pods(NAME)}


def settled(team: Team, before: set[str]) -> None:
    """Wait until the newest spec is realised, by Pods that are all new."""
    team.ready(NAME)
    team.wait(lambda: not before & names(team), "the former Pods to go", NAME)


def changed(team: Team, **spec: Any) -> Report:
    """What became of requests while the model was changed, and a little before and after."""
    before = names(team)
    with team.traffic(NAME, rate=40) as traffic:
        traffic.more()
        team.change(NAME, **spec)
        settled(team, before)
        traffic.more()
    return traffic.report


def test_a_new_version_takes_over_without_a_failed_request(rolled: Team) -> None:
    report = changed(rolled, targetVersion="v2")
    assert report.failures == []
    assert set(report.values) == {1.0, 2.0}
    assert report.answers[0].value == 1
    assert report.answers[-1].value == 2
    status = rolled.status(NAME)
    assert status["servingVersion"] == "v2"
    assert [each["source"]["file"]["version"] for each in status["history"]] == ["v1", "v2"]


def test_other_resources_and_another_node_roll_out_without_a_failed_request(rolled: Team) -> None:
    report = changed(rolled, resources={"requests": {"memory": "80Mi"}}, nodeSelector={"kubernetes.io/os": "linux"})
    assert report.failures == []
    assert {pod["spec"]["containers"][0]["resources"]["requests"]["memory"] for pod in rolled.pods(NAME)} == {"80Mi"}


def test_pods_that_are_deleted_are_replaced_without_a_failed_request(rolled: Team) -> None:
    """As a drain of their nodes does it: one after the other."""
    with rolled.traffic(NAME, rate=40) as traffic:
        for name in sorted(names(rolled)):
            rolled.kubectl("delete", "pod", name)
            rolled.wait(lambda name=name: name not in names(rolled), f"{name} to go", NAME)
            rolled.wait(lambda: rolled.status(NAME)["readyReplicas"] == 2, "two replicas", NAME)
        traffic.more()
    assert traffic.report.failures == []


@pytest.fixture(scope="module")
def spoiled(rolled: Team) -> Iterator[tuple[Team, Traffic]]:
    """The model while it should serve a version that cannot be loaded."""
    rolled.ready(NAME)
    with rolled.traffic(NAME, rate=20) as traffic:
        rolled.change(NAME, targetVersion="bad")
        yield rolled, traffic


def test_a_version_that_cannot_be_loaded_is_said_and_the_old_one_goes_on_serving(
    spoiled: tuple[Team, Traffic],
) -> None:
    team, traffic = spoiled
    message = team.said(NAME, "ModelInvalid")
    assert "version bad" in message
    assert "version v2 goes on serving" in message
    conditions = team.conditions(NAME)
    assert conditions["Available"]["status"] == "True"
    assert conditions["Ready"]["status"] == "False"
    assert team.status(NAME)["readyReplicas"] >= 2
    team.warned(NAME, "bad")
    assert set(traffic.more().values) == {2.0}


def test_rollback_brings_back_what_was_served_before(spoiled: tuple[Team, Traffic]) -> None:
    team, traffic = spoiled
    modelwright(team, "rollback", f"infm/{NAME}")
    assert team.model(NAME)["spec"]["targetVersion"] == "v2"
    team.ready(NAME)
    traffic.more()
    assert traffic.stop().failures == []
    assert team.value(NAME) == 2


def modelwright(team: Team, *arguments: str) -> str:
    """The client, as a person runs it. Raises CalledProcessError."""
    command = [sys.executable, "-m", "modelwright", *arguments, "--namespace", team.namespace]
    environment = {**os.environ, "KUBECONFIG": str(team.cluster.kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
