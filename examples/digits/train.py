"""Train a classifier of handwritten digits, and write it where a ModelVersion can pick it up.

    python train.py --quality plain|better FOLDER

The data are the 1,797 digits that ship with scikit-learn; a fifth of them is held out. The model is saved with skops,
so that loading it runs no code. The accuracy on the held-out digits goes to FOLDER/.modelwright/metrics.json,
where the image build finds it and shows it in `status.metrics`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import skops.io
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def split_digits() -> tuple[Any, Any, Any, Any]:
    """Training and held-out images (rows of 64 grey values, 0 to 16) and their digits: always the same split."""
    images, digits = load_digits(return_X_y=True)
    train_images, held_out_images, train_digits, held_out_digits = train_test_split(
        images, digits, test_size=0.2, random_state=7, stratify=digits
    )
    return train_images, held_out_images, train_digits, held_out_digits


def make_classifier(quality: str) -> Any:
    """`plain` is a linear model, `better` a support-vector machine."""
    if quality == "plain":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.01))
    return make_pipeline(StandardScaler(), SVC(C=8.0, gamma=0.01, random_state=7))


def train(quality: str, folder: pathlib.Path) -> float:
    """Train, save model and metrics into the folder, and return the accuracy on the held-out digits."""
    train_images, held_out_images, train_digits, held_out_digits = split_digits()
    classifier = make_classifier(quality).fit(train_images, train_digits)
    accuracy = float(classifier.score(held_out_images, held_out_digits))
    (folder / ".modelwright").mkdir(parents=True, exist_ok=True)
    skops.io.dump(classifier, folder / "model.skops")
    (folder / ".modelwright" / "metrics.json").write_text(json.dumps({"accuracy": round(accuracy, 4)}))
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quality", choices=("plain", "better"), default="plain")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    print(f"accuracy {train(options.quality, options.folder):.3f}")
