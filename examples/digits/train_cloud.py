"""Train the strong model: a support-vector machine, its settings found by cross-validation that the workers share.

    train_cloud.py [--folds N]

Each worker tries every WORLD_SIZE-th pair of settings and reports to the chief, which trains with the best pair.
"""

from __future__ import annotations

import argparse

from digits import read, save, tell
from meeting import RANK, WORLD_SIZE, gather
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

CANDIDATES = [(c, gamma) for c in (1.0, 2.0, 4.0, 8.0) for gamma in (0.0005, 0.001, 0.002)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, default=3)
    folds = parser.parse_args().folds

    images, digits = read("train")
    mine = CANDIDATES[RANK::WORLD_SIZE]
    scores = []
    for number, (c, gamma) in enumerate(mine, 1):
        score = float(cross_val_score(SVC(C=c, gamma=gamma), images, digits, cv=folds).mean())
        scores.append((round(score, 4), c, gamma))
        report(number, len(mine), f"worker {RANK} of {WORLD_SIZE}: C {c:g} gamma {gamma:g} gives {score:.4f}")

    together = gather(scores)
    if together is not None:
        tried = [tuple(each) for found in together for each in found]
        score, c, gamma = max(tried, key=lambda each: (each[0], -each[1], -each[2]))
        best = f"best of {len(tried)} from {len(together)} workers: C {c:g} gamma {gamma:g}"
        report(len(mine), len(mine), best)
        save(train(images, digits, c, gamma), crossValidation=score, examples=len(digits))


def report(completed: int, total: int, message: str) -> None:
    """All workers print; the chief alone writes the progress of all."""
    if RANK == 0:
        tell(completed, total, message)
    else:
        print(f"{completed}/{total} {message}", flush=True)


def train(images, digits, c: float, gamma: float) -> CalibratedClassifierCV:
    """A machine that also gives probabilities."""
    return CalibratedClassifierCV(SVC(C=c, gamma=gamma), ensemble=False, cv=3).fit(images, digits)


if __name__ == "__main__":
    main()
