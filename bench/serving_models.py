"""Large models that load slowly and answer quickly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.cluster.serving import models
from tests.cluster.serving.models import File


def large_model(folder: Path, value: int, size: int) -> Path:
    """y = x + value on rows of two, in model.onnx, with a table of `size` bytes that no packing makes smaller.

    Always the same bytes for the same value. Which of the table's entries are looked up depends on x, so all of it is
    read, and stays in memory: nothing can be computed beforehand.
    """
    table = np.random.default_rng(value).bytes(size)
    constants = {"zero": np.array(0, np.float32), "value": np.array(value, np.float32)}
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "zero"], ["nothing"]),
            helper.make_node("Cast", ["nothing"], ["place"], to=TensorProto.INT64),
            helper.make_node("Gather", ["table", "place"], ["entry"]),
            helper.make_node("Cast", ["entry"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["number", "zero"], ["none"]),
            helper.make_node("Add", ["none", "value"], ["sum"]),
            helper.make_node("Add", ["x", "sum"], ["y"]),
        ],
        "adds",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [
            *(numpy_helper.from_array(array, name) for name, array in constants.items()),
            helper.make_tensor("table", TensorProto.UINT8, [size], table, raw=True),
        ],
    )
    folder.mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder


def packed(folder: Path) -> File:
    """The folder as a tar beside it; the folder is removed."""
    file = models.tar(folder, folder.with_suffix(".tar"))
    (folder / "model.onnx").unlink()
    folder.rmdir()
    return file
