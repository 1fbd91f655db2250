"""The edge model answers, the cloud model answers the rows that are hard, in all combinations of protocols."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.conftest import EASY, HARD, Answer, Open, Stage
from tests.unit.gateway.models import SmallModel, says, softmax
from tests.unit.kubernetes.servers import Asked

pytestmark = pytest.mark.anyio

SPOKEN: dict[str, dict[str, Any]] = {"v1": {"v2": False}, "v2": {"v1": False}, "both": {}}


def labels(answer: Answer) -> list[Any]:
    """The labels of an answer, in either protocol."""
    assert answer.status == 200, answer.body
    if "predictions" in answer.json:
        rows = answer.json["predictions"]
        return [row["label"] if isinstance(row, dict) else row for row in rows]
    return next(output["data"] for output in answer.json["outputs"] if output["name"] == "label")


@pytest.mark.parametrize(("front", "edge", "cloud"), [*product(["v1", "v2"], SPOKEN, SPOKEN)])
async def test_hard_rows_come_from_the_cloud_whatever_is_spoken(front: str, edge: str, cloud: str, stage: Open) -> None:
    models = SmallModel(**SPOKEN[edge]), SmallModel(offset=100, name="big", **SPOKEN[cloud])
    async with stage(*models) as on:
        mixed = await on.client.ask_rows(front, EASY, HARD, EASY, HARD)
        assert labels(mixed) == [0, 101, 0, 101]
        assert (mixed.by, mixed.headers["x-cloud-rows"]) == ("mixed", "1,3")
        assert (await on.client.ask_rows(front, EASY, EASY)).by == "edge"
        hard = await on.client.ask_rows(front, HARD)
        assert (labels(hard), hard.by) == ([101], "cloud")
        assert len(on.cloud.inferences) == 2, "all hard rows of a request go in one"


@pytest.mark.parametrize("front", ["v1", "v2"])
@pytest.mark.parametrize("edge", [*SPOKEN])
async def test_an_easy_answer_is_what_the_model_itself_would_have_said(front: str, edge: str, stage: Open) -> None:
    async with stage(SmallModel(**SPOKEN[edge])) as on:
        answer = (await on.client.ask_rows(front, EASY, EASY)).json
    if front == "v2":
        assert answer["model_name"] == "joint"
        assert [output["name"] for output in answer["outputs"]] == ["label", "probabilities"]
        assert answer["outputs"][1]["shape"] == [2, 3]
    elif edge == "v2":
        assert [sorted(row) for row in answer["predictions"]] == [["label", "probabilities"]] * 2
    else:
        assert answer == {"predictions": [0, 0]}, "the default signature of a classifier shows labels only"


async def test_a_signature_shows_what_it_shows_at_the_model(stage: Open) -> None:
    async with stage() as on:
        every = (await on.client.predict(EASY, HARD, signature_name="all_outputs")).json["predictions"]
        assert [row["label"] for row in every] == [0, 101]
        assert all(len(row["probabilities"]) == 3 for row in every)
        only = (await on.client.predict(EASY, HARD, signature_name="probabilities")).json["predictions"]
        assert [len(row) for row in only] == [3, 3]
        label = (await on.client.predict(HARD, signature_name="label")).json
        assert label == {"predictions": [101]}


async def test_a_body_goes_on_untouched_where_nothing_has_to_be_added(stage: Open) -> None:
    async with stage(SmallModel(default=("label", "probabilities"))) as on:
        spaced = b'{ "instances" :\n [[9.00, 0e0, 0]] }'
        answer = await on.client.ask("POST", "/v1/models/joint:predict", spaced)
        assert answer.status == 200
        assert on.edge.inferences[-1].body == spaced


@pytest.mark.parametrize("front", ["instances", "inputs", "named rows", "named columns"])
async def test_every_form_of_a_predict_request_is_divided(front: str, stage: Open) -> None:
    rows = [EASY, HARD, EASY]
    bodies: dict[str, Any] = {
        "instances": {"instances": rows},
        "inputs": {"inputs": rows},
        "named rows": {"instances": [{"x": row} for row in rows]},
        "named columns": {"inputs": {"x": rows}},
    }
    async with stage() as on:
        answer = await on.client.ask("POST", "/v1/models/joint:predict", bodies[front])
        key = "outputs" if "inputs" in bodies[front] else "predictions"
        assert answer.json == {key: [0, 101, 0]}
        sent = json.loads(on.cloud.inferences[0].body)
        assert str(HARD) in str(sent)
        assert str(EASY) not in str(sent)


async def test_outputs_that_are_named_are_those_that_come(stage: Open) -> None:
    async with stage() as on:
        answer = await on.client.infer(EASY, HARD, outputs=[{"name": "label"}], id="q7")
        assert [output["name"] for output in answer.json["outputs"]] == ["label"]
        assert answer.json["id"] == "q7"
        assert labels(answer) == [0, 101]


async def test_two_classifiers_are_joined_whatever_their_outputs_are_called(stage: Open) -> None:
    cloud = SmallModel(
        offset=100,
        names={"label": "predict", "probabilities": "predict_proba"},
        datatypes={"probabilities": "FP64"},
        input_name="input",
        input_type="FP64",
    )
    async with stage(cloud=cloud) as on:
        assert labels(await on.client.infer(EASY, HARD)) == [0, 101]
        assert labels(await on.client.predict(EASY, HARD)) == [0, 101]
        named = await on.client.ask("POST", "/v1/models/joint:predict", {"instances": [{"x": EASY}, {"x": HARD}]})
        assert labels(named) == [0, 101]


async def test_answers_have_the_outputs_that_both_models_have(stage: Open) -> None:
    edge = SmallModel(outputs=("label", "probabilities", "logits"))
    async with stage(edge) as on:
        answer = await on.client.infer(EASY)
        names = [output["name"] for output in answer.json["outputs"]]
        assert answer.by == "edge"
        # until the cloud model is known, an answer has what the edge model gives
        assert names in (["label", "probabilities"], ["label", "probabilities", "logits"])
        answer = await on.client.infer(EASY, HARD)
        assert [output["name"] for output in (await on.client.infer(EASY)).json["outputs"]] == [
            "label",
            "probabilities",
        ]
        described = (await on.client.get("/v2/models/joint")).json
        assert [output["name"] for output in described["outputs"]] == ["label", "probabilities"]


async def test_an_output_that_only_one_model_has_comes_from_that_one(stage: Open) -> None:
    edge = SmallModel(outputs=("label", "probabilities"))
    cloud = SmallModel(offset=100, outputs=("label", "probabilities", "logits"))
    async with stage(edge, cloud) as on:
        await on.client.infer(HARD)  # now both are known
        only_cloud = await on.client.infer(EASY, outputs=[{"name": "logits"}, {"name": "label"}])
        assert only_cloud.by == "cloud"
        assert labels(only_cloud) == [100]
        neither = await on.client.infer(EASY, outputs=[{"name": "nothing"}])
        assert (neither.status, neither.by) == (400, "edge")
    async with stage(cloud, edge) as on:
        await on.client.infer(HARD)
        only_edge = await on.client.infer(HARD, outputs=[{"name": "logits"}])
        assert (only_edge.by, only_edge.headers["x-fallback"]) == ("edge", "cloud ModelsDiffer")


@pytest.mark.parametrize(
    ("cloud", "told"),
    [
        (SmallModel(width=4), "input 'x' is FP32 [-1, 3], the cloud model's 'x' is FP32 [-1, 4]"),
        (SmallModel(datatypes={"label": "BYTES"}), "output 'label' is INT64 [-1], the cloud model's is BYTES [-1]"),
        (
            SmallModel(outputs=("logits",), names={"logits": "boxes"}, datatypes={"logits": "INT64"}),
            "nothing in common",
        ),
    ],
)
async def test_a_cloud_model_of_another_shape_counts_as_failed(cloud: SmallModel, told: str, stage: Open) -> None:
    async with stage(cloud=cloud) as on:
        answer = await on.client.predict(EASY, HARD)
        assert (labels(answer), answer.by) == ([0, 1], "edge")
        assert answer.headers["x-fallback"] == "cloud ModelsDiffer"
        assert await on.client.metric("upstream_failures_total", side="cloud", reason="ModelsDiffer") == 1
        state = on.client.app.joint.pair.cloud.state
        assert state.reason == "ModelsDiffer"
        assert told in state.message
        assert on.cloud.inferences == []


async def test_a_model_without_scores_leaves_every_row_to_the_cloud(stage: Open) -> None:
    async with stage(SmallModel(outputs=("label",)), SmallModel(outputs=("label",), offset=100)) as on:
        answer = await on.client.predict(EASY, HARD)
        assert (labels(answer), answer.by) == ([100, 101], "cloud")
        assert await on.client.metric("rows_without_scores_total") == 2


async def test_the_policy_random_needs_no_scores(stage: Open) -> None:
    async with stage(SmallModel(outputs=("label",)), policy="random", parameters={"probability": 0.0}) as on:
        assert (await on.client.predict(HARD, HARD)).by == "edge"
    async with stage(policy="random", parameters={"probability": 1.0}) as on:
        assert (await on.client.predict(EASY, EASY)).by == "cloud"


async def test_logits_are_scores_too(stage: Open) -> None:
    edge = SmallModel(outputs=("label", "logits"), default=("label", "logits"))
    async with stage(edge, SmallModel(outputs=("label", "logits"), offset=100)) as on:
        assert labels(await on.client.predict(EASY, HARD)) == [0, 101]


async def test_scores_that_are_no_numbers_make_a_row_hard(stage: Open) -> None:
    async with stage() as on:
        body = (
            b'{"predictions": [{"label": 0, "probabilities": [NaN, 0.5, 0.5]}, {"label": 1, "probabilities": [0,1,0]}]}'
        )
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)

        async def behave(_: Any, reader: Any, writer: Any) -> None:
            writer.write(head + body)

        on.edge.behaviour = behave
        answer = await on.client.predict(EASY, EASY)
        assert (labels(answer), answer.headers["x-cloud-rows"]) == ([100, 1], "0")


async def test_tokens_that_are_no_json_are_taken_and_given_in_tensorflow_servings_protocol(stage: Open) -> None:
    async with stage(SmallModel(default=("probabilities",))) as on:
        on.edge.behaviour = says({"predictions": [{"label": 0, "probabilities": [1.0, 0.0, 0.0]}] * 2})
        answer = await on.client.ask(
            "POST", "/v1/models/joint:predict", b'{"instances": [[NaN, 0, 0], [-Infinity, 0, 0]]}'
        )
        assert answer.status == 200
        assert b"NaN" in on.edge.inferences[0].body


async def test_versions_and_labels_are_asked_of_both(stage: Open) -> None:
    async with stage(cloud=SmallModel(offset=100, version="1")) as on:
        answer = await on.client.ask("POST", "/v1/models/joint/versions/1:predict", {"instances": [EASY, HARD]})
        assert labels(answer) == [0, 101]
        assert on.cloud.inferences[-1].target == "/v1/models/m/versions/1:predict"
        missing = await on.client.ask("POST", "/v1/models/joint/versions/9:predict", {"instances": [EASY]})
        assert (missing.status, missing.by) == (404, "edge")
        assert await on.client.metric("breaker", side="edge", position="closed") == 1
    async with stage() as on:
        only_cloud = await on.client.ask("POST", "/v1/models/joint/versions/7:predict", {"instances": [EASY]})
        assert (labels(only_cloud), only_cloud.by) == ([100], "cloud")
        only_edge = await on.client.ask("POST", "/v1/models/joint/versions/1:predict", {"instances": [HARD]})
        assert (labels(only_edge), only_edge.headers["x-fallback"]) == ([1], "cloud VersionNotFound")


async def test_versions_of_the_models_stand_in_the_answer(stage: Open) -> None:
    async with stage() as on:
        mixed = await on.client.infer(EASY, HARD)
        assert (mixed.headers["x-model-version"], mixed.headers["x-cloud-model-version"]) == ("1", "7")
        assert (await on.client.infer(HARD)).headers["x-model-version"] == "7"
        assert (await on.client.infer(EASY)).json["model_version"] == "1"


async def test_requests_without_rows_are_the_edge_models_to_judge(stage: Open) -> None:
    async with stage() as on:
        answer = await on.client.predict()
        assert (answer.by, on.cloud.inferences) == ("edge", [])


async def test_every_output_can_be_had_from_a_model_that_knows_signatures_only(stage: Open) -> None:
    older: dict[str, Any] = {"v2": False}
    models = SmallModel(**older), SmallModel(offset=100, name="big", **older)
    async with stage(*models, policy="random", parameters={"probability": 0.0}) as on:
        every = await on.client.infer(EASY)
        assert [output["name"] for output in every.json["outputs"]] == ["label", "probabilities"]
        only = await on.client.infer(EASY, outputs=[{"name": "probabilities"}])
        assert [output["name"] for output in only.json["outputs"]] == ["probabilities"]
        none = await on.client.infer(EASY, outputs=[{"name": "nothing"}])
        assert (none.status, on.cloud.inferences) == (400, [])
        assert "it gives 'label', 'probabilities'" in none.json["error"]


async def test_outputs_of_other_signatures_are_joined_too(stage: Open) -> None:
    """Signatures that exclude each other, as in a SavedModel of several functions."""
    hidden: dict[str, Any] = {"outputs": ("label", "probabilities", "logits"), "v2": False}
    models = SmallModel(**hidden), SmallModel(offset=100, name="big", **hidden)
    for model in models:
        model.signatures = {"serving_default": ("label", "probabilities"), "raw": ("logits", "probabilities")}
    async with stage(*models) as on:
        mixed = await on.client.predict(EASY, HARD, signature_name="raw")
        assert mixed.by == "mixed", mixed.headers
        assert [sorted(row) for row in mixed.json["predictions"]] == [["logits", "probabilities"]] * 2


async def test_examples_of_requests_under_way_are_kept_though_the_configuration_changes(
    tmp_path: Path, stage: Open
) -> None:
    async with stage(keep_folder=str(tmp_path), keep_max_bytes=10_000) as on:
        asked, go_on, cloud = asyncio.Event(), asyncio.Event(), on.cloud

        async def slow(request: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await go_on.wait()
            writer.write(cloud.answer_to(request))

        cloud.behaviour = slow
        task = asyncio.create_task(on.client.predict(HARD))
        await asked.wait()
        config = on.client.app.joint.config
        on.client.app.configure(msgspec.structs.replace(config, keep_folder="", keep_max_bytes=0))
        await asyncio.sleep(0)
        go_on.set()
        assert (await task).by == "cloud"
    with os.scandir(tmp_path) as entries:
        assert [entry.name.startswith("hard-") for entry in entries] == [True]


@pytest.mark.parametrize(
    ("spoken", "which", "front"),
    [
        (spoken, which, front)
        for spoken in ("v1", "v2")
        for which in ("edge", "cloud", "both")
        for front in ("v1", "v2")
    ],
)
async def test_models_that_do_not_describe_themselves_are_joined_by_what_they_answer(
    spoken: str, which: str, front: str, stage: Open
) -> None:
    edge = SmallModel(default=("label", "probabilities"), **SPOKEN[spoken])
    cloud = SmallModel(default=("label", "probabilities"), offset=100, name="big", **SPOKEN[spoken])
    edge.described, cloud.described = which == "cloud", which == "edge"
    async with stage(edge, cloud) as on:
        found = await on.client.ask_rows(front, EASY, HARD)
        if (spoken, front) != ("v2", "v1") or which == "cloud":
            assert (labels(found), found.by) == ([0, 101], "mixed"), found.headers
        elif which == "edge":  # nobody knows the names of its tensors, which the older protocol need not say
            assert (labels(found), found.headers["x-fallback"]) == ([100, 101], "edge CannotBeAsked")
        else:
            assert found.status == 503


def close(runner: asyncio.Runner, entered: contextlib.AbstractAsyncContextManager[Stage]) -> None:
    runner.run(entered.__aexit__(None, None, None))


logits = st.lists(st.floats(-8, 8, allow_nan=False), min_size=3, max_size=3)


def test_each_row_is_answered_by_the_model_that_should(stage: Open) -> None:
    """Against the plain definition, for any rows and thresholds, in all combinations of protocols."""
    with contextlib.ExitStack() as exits:
        runner = exits.enter_context(asyncio.Runner())
        stages: dict[tuple[str, str], Stage] = {}
        for edge, cloud in product(SPOKEN, SPOKEN):
            entered = stage(SmallModel(**SPOKEN[edge]), SmallModel(offset=100, name="big", **SPOKEN[cloud]))
            stages[edge, cloud] = runner.run(entered.__aenter__())
            exits.callback(close, runner, entered)

        @given(st.lists(logits, min_size=1, max_size=6), st.floats(0, 1), st.sampled_from([*stages]), st.booleans())
        @settings(max_examples=150, deadline=None)
        def answers(rows: list[list[float]], threshold: float, spoken: tuple[str, str], older: bool) -> None:
            on = stages[spoken]
            before = on.client.app.joint.config
            on.client.app.configure(msgspec.structs.replace(before, parameters={"threshold": threshold}))
            found = runner.run(on.client.ask_rows("v1" if older else "v2", *rows))
            hard = [max(softmax(row)) < threshold for row in rows]
            assert labels(found) == [row.index(max(row)) + 100 * far for row, far in zip(rows, hard, strict=True)]
            assert found.by == ("cloud" if all(hard) else "mixed" if any(hard) else "edge")

        answers()
