"""What the training programs of this example share: the data, and where the result and its measures go.

A TrainingModel tells a program in its environment where things are: MODELWRIGHT_DATASETS, a folder with an entry for
each data set; KUBEDL_MODEL_PATH, where the model is to be written; KUBEDL_BASE_MODEL_PATH, the model to start from.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
import skops.io

IMAGE = (8, 8)
TRUSTED = ["sklearn.calibration._CalibratedClassifier", "sklearn.calibration._SigmoidCalibration"]


def read(part: str) -> tuple[Any, Any]:
    """Images (rows of 64 grey values, 0 to 16) and digits of a part of the data set: `train` or `held-out`."""
    table = np.loadtxt(dataset("digits") / f"{part}.csv", delimiter=",", skiprows=1)
    return table[:, 1:], table[:, 0].astype(int)


def dataset(name: str) -> pathlib.Path:
    """The folder of a data set; it need not exist."""
    return pathlib.Path(os.environ["MODELWRIGHT_DATASETS"]) / name


def base_model() -> Any:
    """The model that this training starts from. skops takes these types beside its own; it refuses any other."""
    return skops.io.load(pathlib.Path(os.environ["KUBEDL_BASE_MODEL_PATH"]) / "model.skops", trusted=TRUSTED)


def tell(completed: int, total: int, message: str) -> None:
    """Say how far the training is: a line for the log, and the file that becomes `status.progress`."""
    print(f"{completed}/{total} {message}", flush=True)
    write("progress.json", {"completed": completed, "total": total, "message": message})


def save(model: Any, **measures: float) -> None:
    """Write the model, and what becomes `status.metrics` of its version: its accuracy on held-out digits, and more."""
    images, digits = read("held-out")
    accuracy = float(model.score(images, digits))
    skops.io.dump(model, model_folder() / "model.skops")
    write("metrics.json", {"accuracy": round(accuracy, 4), **measures})
    print(f"accuracy {accuracy:.3f} on {len(digits)} digits that it has not seen", flush=True)


def model_folder() -> pathlib.Path:
    return pathlib.Path(os.environ["KUBEDL_MODEL_PATH"])


def write(name: str, value: dict[str, Any]) -> None:
    """Replace a file beside the model in one step, so that nobody reads half of it."""
    folder = model_folder() / ".modelwright"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{name}.new"
    fresh.write_text(json.dumps(value))
    fresh.replace(folder / name)
