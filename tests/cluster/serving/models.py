"""Small real models, of which each tells by its answer which one it is, and the files that they are downloaded as."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BODY = json.dumps({"instances": [[0.0, 1.0]]}).encode()
"""A request of one row, which every model here answers with its own value as the first number."""


def onnx_model(folder: Path, value: float, *, mebibytes: int = 0) -> Path:
    """y = x + value, on rows of two, in model.onnx; with weights of that size, of which one is used."""
    inputs, weights = [numpy_helper.from_array(np.array(value, np.float32), "value")], []
    nodes = [helper.make_node("Add", ["x", "value"], ["y"])]
    if mebibytes:
        random = np.random.default_rng(int(value)).random(mebibytes << 18, np.float32)
        weights = [
            numpy_helper.from_array(random, "weights"),
            numpy_helper.from_array(np.array(0, np.int64), "index"),
            numpy_helper.from_array(np.array(0, np.float32), "zero"),
        ]
        nodes = [
            helper.make_node("Gather", ["weights", "index"], ["one"]),
            helper.make_node("Mul", ["one", "zero"], ["nothing"]),
            helper.make_node("Add", ["value", "nothing"], ["sum"]),
            helper.make_node("Add", ["x", "sum"], ["y"]),
        ]
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "adds", rows[:1], rows[1:], [*inputs, *weights])
    folder.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    return folder


def sklearn_model(folder: Path, value: float) -> Path:
    """A regressor that predicts the value for every row of two, in model.skops."""
    import skops.io
    from sklearn.dummy import DummyRegressor

    folder.mkdir(parents=True, exist_ok=True)
    fitted = DummyRegressor(strategy="constant", constant=value).fit([[0.0, 0.0]], [0.0])
    skops.io.dump(fitted, folder / "model.skops")
    return folder


class File(msgspec.Struct, frozen=True):
    """A file to download, by the name in its URL."""

    name: str
    path: Path
    sha256: str

    @property
    def size(self) -> int:
        return self.path.stat().st_size


def tar(folder: Path, target: Path) -> File:
    """The folder's files below one top folder, uncompressed."""
    with tarfile.open(target, "w") as archive:
        archive.add(folder, arcname="model")
    return file(target)


def tar_gz(folder: Path, target: Path) -> File:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, arcname=".")
    target.write_bytes(gzip.compress(packed.getvalue()))
    return file(target)


def zipped(folder: Path, target: Path) -> File:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return file(target)


def file(path: Path) -> File:
    """A file as it is."""
    with path.open("rb") as content:
        return File(path.name, path, hashlib.file_digest(content, "sha256").hexdigest())
