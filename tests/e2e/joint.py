"""Models that answer together, what they are asked, and the manifests that join them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import skops.io
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.e2e.load import OPENER
from tests.e2e.plane import ControlPlane, inference_model, model_version

Rows = list[list[float]]
JSON = dict[str, Any]
SURE = 0.9
ROWS = 8


class Models(NamedTuple):
    """Folders with a model each; rows that the small model is sure of, and rows that it is not."""

    folder: Path
    easy: Rows
    hard: Rows

    def __call__(self, name: str) -> Path:
        return self.folder / name


def make_models(folder: Path) -> Models:
    """`small` and `large` classify digits; `narrow` wants half the pixels, and `number` guesses a number: those two do
    not go together with the others."""
    images, digits = load_digits(return_X_y=True)
    small = classifier().fit(images[:600], digits[:600])
    made = {
        "small": small,
        "large": classifier().fit(images, digits),
        "narrow": classifier().fit(images[:600, :32], digits[:600]),
        "number": Ridge().fit(images, digits),
    }
    for name, model in made.items():
        (folder / name).mkdir(parents=True)
        skops.io.dump(model, folder / name / "model.skops")
    sure = small.predict_proba(images[600:]).max(axis=1)
    easy, hard = images[600:][sure > SURE + 0.05], images[600:][sure < SURE - 0.05]
    return Models(folder, easy[:ROWS].tolist(), hard[:ROWS].tolist())


def classifier() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


# Manifests ----------------------------------------------------------------------------------------------------------


def served(name: str, layer: str, version: str, **spec: Any) -> JSON:
    """An InferenceModel of a ModelVersion."""
    node = {"nodeName": "here"} if layer == "edge" else {}
    return inference_model(name, deployToLayer=layer, modelVersion=version, **node, **spec)


def inline(name: str, layer: str, version: str, **spec: Any) -> JSON:
    """The same, to stand in a JointInferenceService."""
    return {"spec": served(name, layer, version, **spec)["spec"]}


def joint(name: str, edge: JSON, cloud: JSON, **spec: Any) -> JSON:
    return {
        "apiVersion": "modelwright.dev/v1alpha1",
        "kind": "JointInferenceService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"edgeModel": edge, "cloudModel": cloud, "timeoutSeconds": 10, **spec},
    }


def versions(models: Models, *names: str) -> list[JSON]:
    """A ModelVersion `NAME-v1` of each folder."""
    return [model_version(f"{name}-v1", models(name), imageRepo=f"modelhub/{name}") for name in names]


def start_two(plane: ControlPlane, models: Models, **spec: Any) -> str:
    """Two InferenceModels, small and large, that a JointInferenceService `digits` names; where that answers."""
    plane.apply(*versions(models, "small", "large"))
    plane.apply(served("small", "edge", "small-v1"), served("large", "cloud", "large-v1"))
    plane.apply(joint("digits", {"name": "small"}, {"name": "large"}, **spec))
    return str(plane.until_ready("jis", "digits")["status"]["url"])


# Asking -------------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What came back: the predictions, and who gave them."""

    predictions: list[Any]
    side: str


def ask(url: str, rows: Rows) -> Answer:
    """By TensorFlow Serving's REST. Raises OSError where that fails, and HTTPError for a refusal."""
    answer, side = post(f"{url}:predict", {"instances": rows})
    return Answer(answer["predictions"], side)


def infer(url: str, rows: Rows, output: str = "") -> Answer:
    """By the Open Inference Protocol."""
    data = [value for row in rows for value in row]
    tensor = {"name": "input", "datatype": "FP64", "shape": [len(rows), len(rows[0])], "data": data}
    wanted: JSON = {"outputs": [{"name": output}]} if output else {}
    answer, side = post(f"{url.replace('/v1/models/', '/v2/models/')}/infer", {"inputs": [tensor], **wanted})
    return Answer(answer["outputs"][0]["data"], side)


def post(url: str, body: JSON) -> tuple[JSON, str]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with OPENER.open(request, timeout=60) as answer:
        return json.load(answer), answer.headers.get("X-Served-By", "")


def answered_by(url: str, rows: Rows, side: str) -> Callable[[], Answer | None]:
    """For `until`: an answer of this side."""

    def asked() -> Answer | None:
        answer = ask(url, rows)
        return answer if answer.side == side else None

    return asked
