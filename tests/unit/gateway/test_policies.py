"""Policies are pure functions of a row of probabilities; scores become probabilities first."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwright.gateway import policies
from modelwright.gateway.scores import find_scores, hard_rows, probabilities, softmax
from modelwright.gateway.tensors import Spec, Tensor
from modelwright.ports.errors import Invalid

SURE, UNSURE = [0.97, 0.02, 0.01], [0.5, 0.4, 0.1]

rows = st.lists(st.floats(0.001, 1), min_size=2, max_size=12).map(lambda row: [value / sum(row) for value in row])


@pytest.mark.parametrize("name", ["confidence", "margin", "crossEntropy"])
def test_each_policy_tells_a_sure_row_from_an_unsure_one(name: str) -> None:
    hard = policies.make(name, {})
    assert (hard(SURE), hard(UNSURE)) == (False, True)


@pytest.mark.parametrize("name", ["confidence", "margin", "crossEntropy"])
def test_the_defaults_mean_the_same_for_two_classes(name: str) -> None:
    hard = policies.make(name, {})
    assert (hard([0.91, 0.09]), hard([0.89, 0.11])) == (False, True)


@given(rows)
def test_the_order_of_classes_does_not_matter(row: list[float]) -> None:
    for name in ("confidence", "margin", "crossEntropy"):
        hard = policies.make(name, {})
        assert hard(row) == hard(sorted(row)) == hard(sorted(row, reverse=True))


@given(rows, st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_finds_no_less_hard(row: list[float], one: float, other: float) -> None:
    low, high = sorted((one, other))
    for name, rising in (("confidence", True), ("margin", True), ("crossEntropy", False)):
        lower = policies.make(name, {"threshold": low})(row)
        higher = policies.make(name, {"threshold": high})(row)
        assert (higher >= lower) if rising else (lower >= higher)


@given(rows)
def test_entropy_is_in_nats_between_certain_and_no_idea(row: list[float]) -> None:
    assert -1e-9 <= policies.entropy(row) <= math.log(len(row)) + 1e-9
    assert policies.entropy([1.0, 0.0]) == 0
    assert policies.entropy([0.25] * 4) == pytest.approx(math.log(4))


def test_the_policy_random_finds_its_share_hard() -> None:
    hard = policies.make("random", {"probability": 0.25})
    assert 0.2 < sum(hard([]) for _ in range(4000)) / 4000 < 0.3


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("sure", {}, "there is no policy 'sure'; there are confidence, margin, crossEntropy, random"),
        ("confidence", {"treshold": 0.5}, "it has no parameter 'treshold'; it has threshold"),
        ("confidence", {"threshold": 1.5}, "threshold must be from 0 to 1"),
        ("margin", {"threshold": -1}, "threshold must be from 0 to 1"),
        ("crossEntropy", {"threshold": -0.1}, "threshold must be 0 or more"),
        ("crossEntropy", {"threshold": math.nan}, "threshold must be 0 or more"),
        ("random", {"threshold": 0.1}, "it has no parameter 'threshold'; it has probability"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(name: str, parameters: dict[str, float], told: str) -> None:
    with pytest.raises(Invalid, match="policy") as refused:
        policies.make(name, parameters)
    assert told in refused.value.message
    assert refused.value.reason == "ConfigInvalid"


def install(folder: Path, target: str) -> None:
    """A distribution with a policy named `odd`, as pip would leave it."""
    info = folder / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{policies.GROUP}]\nodd = {target}\n")
    (folder / "odd_policies.py").write_text(ODD)


ODD = """
def make(parameters):
    if "least" not in parameters:
        raise ValueError("least is missing")
    return lambda row: len(row) <= parameters["least"]
"""


def test_a_plug_in_is_a_policy_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "odd_policies:make")
    monkeypatch.syspath_prepend(str(tmp_path))
    hard = policies.make("odd", {"least": 2})
    assert (hard([1, 0]), hard([1, 0, 0])) == (True, False)
    with pytest.raises(Invalid, match="policy odd: least is missing"):
        policies.make("odd", {})
    with pytest.raises(Invalid, match="random, odd"):
        policies.make("even", {})


def test_a_plug_in_that_cannot_be_loaded_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "nowhere_at_all:make")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Invalid, match="policy odd cannot be loaded"):
        policies.make("odd", {})


# Scores -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "name"),
    [
        ([("label", "INT64", (-1,)), ("probabilities", "FP32", (-1, 10))], "probabilities"),
        ([("predict", "BYTES", (-1,)), ("predict_proba", "FP64", (-1, 3))], "predict_proba"),
        ([("dense_1", "FP32", (-1, 10))], "dense_1"),
        ([("sigmoid", "FP32", (-1, 1))], "sigmoid"),
        ([("score", "FP32", (-1,))], "score"),
        ([("logits", "FP32", (-1, 10)), ("softmax", "FP32", (-1, 10))], "softmax"),
        ([("embedding", "FP32", (-1, 128)), ("scores", "FP32", (-1, 10))], "scores"),
        ([("embedding", "FP32", (-1, 128)), ("dense", "FP32", (-1, 10))], ""),
        ([("predict", "FP64", (-1,))], ""),
        ([("label", "INT64", (-1,))], ""),
        ([("mask", "FP32", (-1, 64, 64))], ""),
        ([], ""),
    ],
)
def test_the_output_with_the_scores_is_found(outputs: list[tuple[str, str, tuple[int, ...]]], name: str) -> None:
    assert find_scores([Spec(*each) for each in outputs]) == name


def test_the_output_with_the_scores_can_be_named() -> None:
    assert find_scores([Spec("a", "FP32", (-1, 3))], "b") == "b"
    assert find_scores(None) == ""


@pytest.mark.parametrize(
    ("row", "name", "found"),
    [
        ([0.2, 0.8], "p", [0.2, 0.8]),
        ([0.7], "p", [0.3, 0.7]),
        ([1.0], "p", [0.0, 1.0]),
        ([2.0], "p", None),
        ([0.0], "logit", [0.5, 0.5]),
        ([3.0, 3.0], "p", [0.5, 0.5]),
        ([0.5, 0.5], "logits", [0.5, 0.5]),
        ([math.nan, 1.0], "p", None),
        ([math.inf, 0.0], "p", None),
        ([math.inf, -math.inf], "p", None),
        ([], "p", None),
        ([1e308, 1e308], "p", None),
        (["a", "b"], "p", None),
        ([None, 1.0], "p", None),
    ],
)
def test_a_row_of_scores_becomes_probabilities_or_says_nothing(row: list[float], name: str, found: object) -> None:
    seen = probabilities(row, name)
    assert seen == (pytest.approx(found) if found is not None else None)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_logits_become_a_distribution_with_the_same_winner(row: list[float]) -> None:
    found = softmax(row)
    assert math.fsum(found) == pytest.approx(1)
    assert found[row.index(max(row))] == max(found)


def test_rows_that_say_nothing_are_hard_and_so_are_those_at_which_a_policy_fails() -> None:
    failures: list[Exception] = []

    def broken(row: object) -> bool:
        raise RuntimeError("oh")

    scores = Tensor(name="p", datatype="FP32", shape=(3, 2), flat=[1.0, 0.0, math.nan, 1.0, 0.5, 0.5])
    assert hard_rows(scores, policies.make("confidence", {}), failures.append) == [1, 2]
    assert hard_rows(scores, broken, failures.append) == [0, 1, 2]
    assert len(failures) == 2
