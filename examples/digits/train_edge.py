"""Train the small model, which fits any edge device: a linear classifier, 650 numbers.

    train_edge.py [--strength C]        how closely it follows the training digits

If there is a data set `hard-examples`, it learns from these digits too: images that the former edge model was not sure
of, kept by the gateway with what the cloud model took them for. Nobody had to label them.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from digits import dataset, read, save, tell
from sklearn.linear_model import LogisticRegression

ITERATIONS = 5000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--strength", type=float, default=0.01)
    options = parser.parse_args()

    images, digits = read("train")
    hard = hard_examples()
    tell(0, 1, f"learning from {len(digits)} digits" + (f" and {len(hard)} hard examples" if hard else ""))
    images = np.array([*images, *(image for image, _ in hard)])
    digits = np.array([*digits, *(digit for _, digit in hard)])
    model = LogisticRegression(C=options.strength, max_iter=ITERATIONS).fit(images, digits)
    tell(1, 1, "done")
    save(model, examples=len(digits))


def hard_examples() -> list[tuple[Any, int]]:
    """Images with the cloud model's answers, from the gateway's files: a line of JSON for each row that was hard."""
    files = sorted(dataset("hard-examples").glob("*.jsonl"))
    kept = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [(*each["inputs"].values(), each["cloud"]["outputs"]["predict"]) for each in kept if each["cloud"]]


if __name__ == "__main__":
    main()
