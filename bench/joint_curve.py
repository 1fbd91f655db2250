"""Accuracy over the share of rows that go to the cloud: the example's models, and the gateway's own policies."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import skops.io

from modelwright.gateway import policies

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "digits"
TRUSTED = ["sklearn.calibration._CalibratedClassifier", "sklearn.calibration._SigmoidCalibration"]
DEFAULTS = {"confidence": policies.CONFIDENCE, "margin": policies.MARGIN, "crossEntropy": policies.ENTROPY}
GRIDS = {
    "confidence": np.linspace(0.1, 1.0, 91),
    "margin": np.linspace(0.0, 1.0, 51),
    "crossEntropy": np.linspace(2.0, 0.0, 81),
}
"""Thresholds from none to all rows."""
BEHIND = 0.005
"""How far below the cloud model edge and cloud together may be."""


class Point(NamedTuple):
    """What one threshold gives."""

    threshold: float
    share: float
    accuracy: float


class Answers(NamedTuple):
    """What the two models say about the held-out digits: rows of probabilities from the edge, digits from both."""

    images: Any
    digits: Any
    scores: list[list[float]]
    edge: Any
    cloud: Any

    @property
    def edge_accuracy(self) -> float:
        return float((self.edge == self.digits).mean())

    @property
    def cloud_accuracy(self) -> float:
        return float((self.cloud == self.digits).mean())


# The two models -------------------------------------------------------------------------------------------------------


def train(folder: Path) -> None:
    """The example's data and models: FOLDER/edge and FOLDER/cloud."""
    run(EXAMPLE / "prepare.py", str(folder))
    data = folder / "datasets" / "digits"
    data.mkdir(parents=True)
    with tarfile.open(folder / "digits.tar") as tar:
        tar.extractall(data, filter="data")
    for name in ("edge", "cloud"):
        run(folder / f"train_{name}.py", MODELWRIGHT_DATASETS=str(data.parent), KUBEDL_MODEL_PATH=str(folder / name))


def run(program: Path, *arguments: str, **environment: str) -> None:
    command = [sys.executable, str(program), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment})


def ask(folder: Path) -> Answers:
    """Both models about all held-out digits, without a server."""
    table = np.loadtxt(folder / "datasets" / "digits" / "held-out.csv", delimiter=",", skiprows=1)
    images, digits = table[:, 1:], table[:, 0]
    edge, cloud = (skops.io.load(folder / name / "model.skops", trusted=TRUSTED) for name in ("edge", "cloud"))
    scores = edge.predict_proba(images).tolist()
    return Answers(images, digits, scores, edge.predict(images), cloud.predict(images))


# The curve ------------------------------------------------------------------------------------------------------------


def point(answers: Answers, policy: str, threshold: float) -> Point:
    """What the gateway's own policy makes of it."""
    chooses = policies.make(policy, {"threshold": threshold})
    hard = np.array([chooses(row) for row in answers.scores])
    together = np.where(hard, answers.cloud, answers.edge)
    return Point(threshold, float(hard.mean()), float((together == answers.digits).mean()))


def curve(answers: Answers, policy: str) -> list[Point]:
    """From no row to all rows; for `random` what is to be expected of it, which is a straight line."""
    if policy == "random":
        low, high = answers.edge_accuracy, answers.cloud_accuracy
        return [Point(share, share, low + share * (high - low)) for share in (0.0, 1.0)]
    return [point(answers, policy, float(threshold)) for threshold in GRIDS[policy]]


def least_share(points: list[Point], goal: float) -> float:
    """The least share of rows that reaches this accuracy; between two points on a line."""
    first, last = points[0], points[-1]
    if len(points) == 2:
        return (goal - first.accuracy) / (last.accuracy - first.accuracy)
    return min(each.share for each in points if each.accuracy >= goal)


def figures(answers: Answers) -> dict[str, float]:
    """The figures that the docs tell, by name."""
    goal = answers.cloud_accuracy - BEHIND
    found = {"edge accuracy": answers.edge_accuracy, "cloud accuracy": answers.cloud_accuracy}
    for policy in (*DEFAULTS, "random"):
        found[f"{policy} least share"] = least_share(curve(answers, policy), goal)
    for policy, threshold in DEFAULTS.items():
        given = point(answers, policy, threshold)
        found |= {f"{policy} default share": given.share, f"{policy} default accuracy": given.accuracy}
    return {name: round(value, 3) for name, value in found.items()}
