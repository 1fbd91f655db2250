"""Two classifiers that answer as one: the cloud's answers are the edge's plus 100, so that each tells who gave it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.cluster.builds import JSON
from tests.cluster.serving import models
from tests.cluster.serving.downloads import Downloads
from tests.cluster.serving.team import Reply

EASY, HARD = [9.0, 0.0, 0.0], [1.0, 1.1, 0.0]
"""A row whose class, 0, is sure, and one whose class, 1, is not."""
OFFSETS = {"edge": 0, "cloud": 100}


def mining(threshold: float = 0.8) -> JSON:
    """Which rows are hard, and that they are kept."""
    return {"hardExampleMining": {"parameters": {"threshold": threshold}, "keep": {"maxBytes": 1_000_000}}}


def body(*rows: list[float]) -> bytes:
    """A request for these rows."""
    return json.dumps({"instances": rows}).encode()


def infer_body(*rows: list[float]) -> bytes:
    """The same by the Open Inference Protocol."""
    data = [value for row in rows for value in row]
    tensor = {"name": "x", "shape": [len(rows), 3], "datatype": "FP32", "data": data}
    return json.dumps({"inputs": [tensor], "outputs": [{"name": "label"}]}).encode()


def said(reply: Reply) -> tuple[list[int], str]:
    """The classes, and who served them."""
    assert reply.status == 200, (reply.status, reply.body)
    return reply.json["predictions"], reply.headers["x-served-by"]


def sources(downloads: Downloads, folder: Path) -> dict[str, JSON]:
    """What an InferenceModel of each side says of its model."""
    found = {}
    for side, offset in OFFSETS.items():
        file = models.tar(classifier(folder / side, offset), folder / f"{side}.tar")
        url = downloads.give(file, f"pair-{side}.tar")
        entry = {"version": f"{side}-v1", "downloadURL": url, "sha256sum": file.sha256}
        found[side] = {"frameworkType": "onnx", "manifest": [entry], "targetVersion": f"{side}-v1"}
    return found


def classifier(folder: Path, offset: int) -> Path:
    """An ONNX model of rows of three: the place of the highest number plus the offset, and the softmax."""
    graph = helper.make_graph(
        [
            helper.make_node("Softmax", ["x"], ["probabilities"]),
            helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
            helper.make_node("Add", ["place", "offset"], ["label"]),
        ],
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 3]),
        ],
        [numpy_helper.from_array(np.array(offset, np.int64), "offset")],
    )
    folder.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder
