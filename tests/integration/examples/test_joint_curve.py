"""What the docs say that joint inference is worth, held against what the example's models and a real gateway give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.joint import MOST, measure
from bench.joint_curve import BEHIND, DEFAULTS, Answers, ask, curve, figures, train
from bench.joint_picture import PICTURE, draw

from modelwright.gateway import policies

PAGE = Path(__file__).parents[3] / "docs" / "joint-inference.md"
CLOSE = 0.004
"""Two of the 719 digits: another processor may add up in another order."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example's data and its two models."""
    folder = tmp_path_factory.mktemp("joint")
    train(folder)
    return folder


@pytest.fixture(scope="module")
def answers(trained: Path) -> Answers:
    return ask(trained)


def test_the_picture_in_the_docs_is_of_these_models_and_policies(answers: Answers) -> None:
    shown, computed = (described(svg) for svg in (PICTURE.read_text(), draw(answers)))
    assert shown == pytest.approx(computed, abs=CLOSE)
    assert set(shown) == set(figures(answers))


def described(svg: str) -> dict[str, float]:
    """The figures in the description of the picture."""
    text = svg.partition("<desc>")[2].partition("</desc>")[0]
    return {name.strip(): float(value) for name, value in re.findall(r"([\w -]+?) (\d\.\d+)(?:;|$)", text)}


def test_the_table_in_the_docs_has_the_default_of_each_policy_and_what_it_sends(answers: Answers) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| `(?:threshold|probability)` \| ([\d.]+) \| (\d+) % \|$", page(), re.MULTILINE
    )
    found = figures(answers)
    shares = {policy: found[f"{policy} default share"] for policy in DEFAULTS} | {"random": policies.SHARE}
    assert {policy: float(default) for policy, default, _ in rows} == {**DEFAULTS, "random": policies.SHARE}
    assert {policy: int(share) / 100 for policy, _, share in rows} == pytest.approx(shares, abs=0.005 + CLOSE)


def test_the_text_of_the_docs_has_the_accuracy_of_both_models(answers: Answers) -> None:
    text = " ".join(page().split())
    told = re.search(r"edge model alone is right in ([\d.]+) % of the cases, the cloud model in ([\d.]+) %", text)
    assert told is not None
    accuracies = [answers.edge_accuracy, answers.cloud_accuracy]
    assert [float(value) / 100 for value in told.groups()] == pytest.approx(accuracies, abs=CLOSE)


def page() -> str:
    return PAGE.read_text()


@pytest.mark.parametrize("policy", [*DEFAULTS, "random"])
def test_a_curve_goes_from_the_edge_model_to_the_cloud_model(answers: Answers, policy: str) -> None:
    points = curve(answers, policy)
    assert (points[0].share, points[0].accuracy) == (0.0, answers.edge_accuracy)
    assert (points[-1].share, points[-1].accuracy) == (1.0, answers.cloud_accuracy)
    assert [each.share for each in points] == sorted(each.share for each in points)


def test_a_real_gateway_gives_what_was_computed_and_reaches_the_target(trained: Path, answers: Answers) -> None:
    measured, computed = measure(trained, answers, policies.CONFIDENCE), figures(answers)
    assert measured.share == pytest.approx(computed["confidence default share"], abs=CLOSE)
    assert measured.accuracy == pytest.approx(computed["confidence default accuracy"], abs=CLOSE)
    assert measured.share <= MOST
    assert measured.accuracy >= answers.cloud_accuracy - BEHIND
