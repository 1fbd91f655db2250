"""Edge and cloud answer together, whatever becomes of either of them, of the gateway's policy or the control plane."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.e2e.joint import Models, answered_by, ask, infer, inline, joint, make_models, served, start_two, versions
from tests.e2e.load import Load
from tests.e2e.plane import ControlPlane, command_of, until
from tests.e2e.trainings import Training

ALL_TO_THE_CLOUD = {"policy": "random", "parameters": {"probability": 1}}
NONE_TO_THE_CLOUD = {"policy": "random", "parameters": {"probability": 0}}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return make_models(tmp_path_factory.mktemp("joint") / "models")


def gateways(plane: ControlPlane) -> list[int]:
    """The gateways that run, by their process ids."""
    return [process.pid for process in plane.processes() if "modelwright.gateway --config " in command_of(process)]


def model_server(plane: ControlPlane, name: str) -> psutil.Process:
    """The process that serves the model of this name, by the port that it listens on."""
    port = int(plane.get("infm", name)["status"]["url"].split(":")[2].partition("/")[0])
    serving = [each for each in plane.processes() if "modelwright.serve --config " in command_of(each)]
    return next(each for each in serving if port in [found.laddr.port for found in each.net_connections("tcp")])


def policy(**mining: Any) -> dict[str, Any]:
    """The service `digits` with another policy."""
    return joint("digits", {"name": "small"}, {"name": "large"}, hardExampleMining=mining)


def until_available(plane: ControlPlane, reason: str) -> None:
    """Wait until it is said who answers."""
    until(lambda: plane.condition("jis", "digits", "Available").get("reason") == reason, f"Available is {reason}")


def names(plane: ControlPlane, kind: str) -> list[str]:
    return sorted(plane.kubectl("get", kind, "-o", "name").split())


# Together -----------------------------------------------------------------------------------------------------------


def test_two_inline_models_answer_as_one_and_go_with_it(plane: ControlPlane, models: Models) -> None:
    plane.apply(*versions(models, "small", "large"))
    plane.apply(joint("digits", inline("small", "edge", "small-v1"), inline("large", "cloud", "large-v1")))
    plane.run("wait", "jis/digits", "--timeout", "90s")
    status = plane.get("jis", "digits")["status"]
    url = status["url"]
    assert url.endswith("/v1/models/digits")
    assert [status[side]["name"] for side in ("edgeModel", "cloudModel")] == ["digits-edge", "digits-cloud"]

    assert ask(url, models.easy).side == "edge"
    assert ask(url, models.hard).side == "cloud"
    rows = [row for pair in zip(models.easy, models.hard, strict=True) for row in pair]
    small, large = (ask(plane.get("infm", f"digits-{side}")["status"]["url"], rows) for side in ("edge", "cloud"))
    merged = [pick[number] for number in range(0, len(rows), 2) for pick in (small.predictions, large.predictions[1:])]
    assert ask(url, rows) == (merged, "mixed")
    assert infer(url, rows).side == "mixed"

    scaled = inline("large", "cloud", "large-v1", replicas=2)
    plane.apply(joint("digits", inline("small", "edge", "small-v1"), scaled))
    until(lambda: plane.get("infm", "digits-cloud")["status"]["readyReplicas"] == 2, "the inline model is changed")
    plane.kubectl("scale", "infm/digits-cloud", "--replicas=1")
    until(lambda: plane.get("infm", "digits-cloud")["spec"]["replicas"] == 2, "it is as its spec says again")
    assert "change the spec there" in plane.run("rollback", "infm/digits-cloud", code=1)

    plane.run("delete", "jis/digits")
    until(lambda: names(plane, "infm") == [], "the inline models are gone")
    until(lambda: gateways(plane) == [], "the gateway is gone")


def test_two_models_that_are_named_answer_as_one_and_stay(plane: ControlPlane, models: Models) -> None:
    url = start_two(plane, models)
    assert ask(url, models.easy).side == infer(url, models.easy).side == "edge"
    assert ask(url, models.hard).side == infer(url, models.hard).side == "cloud"

    told = json.loads(plane.run("predict", "jis/digits", "--data", json.dumps(models.hard)))
    assert told["predictions"] == ask(url, models.hard).predictions
    assert "ready http" in plane.run("logs", "jis/digits")
    described = plane.run("describe", "jis/digits")
    assert "InferenceModel small answers, and large the rows that are hard by confidence" in described
    assert "digits" in plane.run("get", "jis", "-o", "wide")

    plane.run("delete", "jis/digits")
    until(lambda: gateways(plane) == [], "the gateway is gone")
    assert [name.rpartition("/")[2] for name in names(plane, "infm")] == ["large", "small"]
    assert plane.condition("infm", "small", "Available")["status"] == "True"


def test_an_inline_model_gives_way_to_a_named_one_without_a_failed_request(plane: ControlPlane, models: Models) -> None:
    plane.apply(*versions(models, "small", "large"), served("large", "cloud", "large-v1"))
    plane.apply(joint("digits", inline("small", "edge", "small-v1"), {"name": "large"}))
    url = plane.until_ready("jis", "digits")["status"]["url"]
    with Load(url) as load:
        load.more()
        plane.apply(joint("digits", {"name": "small"}, {"name": "large"}))
        plane.until_reason("jis", "digits", "EdgeModelNotFound", "Reconciling")
        assert ask(url, models.easy).side == "edge", "the inline model goes on until the other one is there"
        plane.apply(served("small", "edge", "small-v1"))
        plane.until_ready("jis", "digits")
        until(lambda: len(names(plane, "infm")) == 2, "the inline model is gone")
        load.more()
    assert load.failures == []


# Models that are not there ------------------------------------------------------------------------------------------


def test_without_an_edge_model_the_cloud_answers(plane: ControlPlane, models: Models) -> None:
    plane.apply(*versions(models, "large"), served("large", "cloud", "large-v1"))
    plane.apply(joint("digits", {"name": "small"}, {"name": "large"}))
    told = plane.until_reason("jis", "digits", "EdgeModelNotFound", "Reconciling")
    assert "create it" in told
    until_available(plane, "CloudOnly")
    url = plane.get("jis", "digits")["status"]["url"]
    assert ask(url, models.easy).side == "cloud"

    plane.apply(served("small", "edge", "small-v1"))
    plane.until_reason("jis", "digits", "EdgeModelNotReady", "Reconciling")
    plane.apply(*versions(models, "small"))
    assert plane.until_ready("jis", "digits")["status"]["url"] == url
    until(answered_by(url, models.easy, "edge"), "the edge answers")


def test_without_any_model_nobody_answers_and_it_is_said(plane: ControlPlane) -> None:
    plane.apply(joint("digits", {"name": "small"}, {"name": "large"}))
    told = plane.until_reason("jis", "digits", "EdgeModelNotFound", "Reconciling")
    assert "InferenceModel large does not exist" in told
    until_available(plane, "NoModelAnswers")
    assert "HTTP 503" in plane.run("predict", "jis/digits", "--data", "[[1]]", code=1)
    assert "EdgeModelNotFound" in plane.run("wait", "jis/digits", "--timeout", "1s", code=1)


def test_the_cloud_model_goes_and_comes_back_under_load(plane: ControlPlane, models: Models) -> None:
    url = start_two(plane, models, hardExampleMining=ALL_TO_THE_CLOUD)
    with Load(url) as load:
        load.more()
        plane.kubectl("scale", "infm/large", "--replicas=0")
        told = plane.until_reason("jis", "digits", "CloudModelScaledToZero")
        assert "until then small answers all rows" in told
        until(answered_by(url, models.easy, "edge"), "the edge answers alone")
        load.more()
        plane.kubectl("scale", "infm/large", "--replicas=1")
        assert plane.until_ready("jis", "digits")["status"]["url"] == url
        until(answered_by(url, models.easy, "cloud"), "the cloud is asked again")

        plane.run("delete", "infm/large")
        plane.until_reason("jis", "digits", "CloudModelNotFound", "Reconciling")
        until(answered_by(url, models.easy, "edge"), "the edge answers alone")
        load.more()
        plane.apply(served("large", "cloud", "large-v1"))
        plane.until_ready("jis", "digits")
        until(answered_by(url, models.easy, "cloud"), "the cloud is asked again")
    assert load.failures == []
    assert len(gateways(plane)) == 1


@pytest.mark.parametrize("name", ["narrow", "number"])
def test_a_cloud_model_of_other_shapes_is_said_and_the_edge_answers(
    plane: ControlPlane, models: Models, name: str
) -> None:
    plane.apply(*versions(models, "small", name))
    plane.apply(served("small", "edge", "small-v1"), served(name, "cloud", f"{name}-v1"))
    plane.apply(joint("digits", {"name": "small"}, {"name": name}, hardExampleMining=ALL_TO_THE_CLOUD))
    told = plane.until_reason("jis", "digits", "ModelsDiffer")
    assert f"cannot use InferenceModel {name}" in told
    until_available(plane, "EdgeOnly")
    url = plane.get("jis", "digits")["status"]["url"]
    assert ask(url, models.easy) == (ask(plane.get("infm", "small")["status"]["url"], models.easy).predictions, "edge")


def test_a_cloud_model_that_hangs_is_left_alone_until_it_answers_again(plane: ControlPlane, models: Models) -> None:
    url = start_two(plane, models, hardExampleMining=ALL_TO_THE_CLOUD, timeoutSeconds=4)
    until(answered_by(url, models.easy, "cloud"), "the cloud is asked")
    with Load(url) as load:
        hanging = model_server(plane, "large")
        hanging.send_signal(signal.SIGSTOP)
        try:
            until(lambda: plane.condition("jis", "digits").get("reason") == "TimedOut", "it is said")
            until_available(plane, "EdgeOnly")
            load.more()
        finally:
            hanging.send_signal(signal.SIGCONT)
        until(answered_by(url, models.easy, "cloud"), "the cloud is asked again")
        plane.until_ready("jis", "digits")
    assert load.failures == []


# Changes while it answers -------------------------------------------------------------------------------------------


def test_a_policy_is_changed_under_load(plane: ControlPlane, models: Models) -> None:
    url = start_two(plane, models, hardExampleMining=NONE_TO_THE_CLOUD)
    before = gateways(plane)
    with Load(url) as load:
        until(answered_by(url, models.hard, "edge"), "no row is hard")
        for mining, rows, side in (
            (ALL_TO_THE_CLOUD, models.easy, "cloud"),
            ({"policy": "confidence"}, models.easy, "edge"),
            ({"policy": "margin", "parameters": {"threshold": 1}}, models.hard, "cloud"),
            ({"policy": "crossEntropy", "parameters": {"threshold": 100}}, models.hard, "edge"),
        ):
            plane.apply(policy(**mining))
            plane.until_ready("jis", "digits")
            until(answered_by(url, rows, side), f"{mining} holds")
            load.more()
    assert load.failures == []
    assert gateways(plane) == before


def test_a_policy_that_is_not_there_is_said_and_the_former_one_holds(plane: ControlPlane, models: Models) -> None:
    url = start_two(plane, models, hardExampleMining=ALL_TO_THE_CLOUD)
    with Load(url) as load:
        plane.apply(policy(policy="example.energy"))
        told = plane.until_reason("jis", "digits", "ConfigInvalid")
        assert "example.energy" in told
        load.more()
        assert ask(url, models.easy).side == "cloud"
        plane.apply(policy(policy="confidence"))
        plane.until_ready("jis", "digits")
    assert load.failures == []


def test_a_control_plane_is_killed_and_started_again_under_load(plane: ControlPlane, models: Models) -> None:
    url = start_two(plane, models, hardExampleMining=ALL_TO_THE_CLOUD)
    before = gateways(plane)
    assert len(before) == 1
    with Load(url) as load:
        for mining, side in ((NONE_TO_THE_CLOUD, "edge"), (ALL_TO_THE_CLOUD, "cloud")):
            plane.kill()
            load.more()
            plane.start()
            assert plane.until_ready("jis", "digits")["status"]["url"] == url
            plane.apply(policy(**mining))
            plane.kill()  # in the middle of the change
            load.more()
            plane.start()
            plane.until_ready("jis", "digits")
            until(answered_by(url, models.easy, side), "the policy holds")
    assert load.failures == []
    assert gateways(plane) == before


# Hard examples ------------------------------------------------------------------------------------------------------


def test_hard_examples_are_kept_for_the_next_training(plane: ControlPlane, models: Models, tmp_path: Path) -> None:
    mining = {"policy": "confidence", "keep": {"maxBytes": 1_000_000}}
    url = start_two(plane, models, hardExampleMining=mining)
    folder = plane.data / "hard-examples" / "default" / "digits"
    assert ask(url, models.easy).side == "edge"
    answer = ask(url, models.hard)
    assert answer.side == "cloud"
    until(lambda: list(folder.glob("hard-*.jsonl")), "they are kept")
    kept = until(lambda: plane.get("jis", "digits")["status"].get("keptBytes"), "it is said how much")
    assert kept <= sum(file.stat().st_size for file in folder.iterdir())
    assert plane.get("jis", "digits")["status"]["keptPath"] == str(folder)
    plane.run("delete", "jis/digits")
    training = Training(
        tmp_path,
        "next",
        """
        files = sorted((data / "hard").glob("hard-*.jsonl"))
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        shutil.copy(sys.argv[1], out / "model.skops")
        (out / "seen.json").write_text(json.dumps([[row["inputs"], row["cloud"]["outputs"]] for row in rows]))
        """,
        args=[str(models("small") / "model.skops")],
        datasets=[{"name": "hard", "uri": folder.as_uri()}],
    )
    plane.apply(training.body)
    plane.until_ready("tm", "next")
    seen = json.loads((training.out / "seen.json").read_text())
    assert [next(iter(inputs.values())) for inputs, _ in seen] == models.hard
    assert [outputs["predict"] for _, outputs in seen] == answer.predictions
    (dataset,) = plane.get("mv", "next")["spec"]["lineage"]["datasets"]
    assert dataset["digest"].startswith("sha256:")
