"""Tiny models, and the server on them without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.unit.serve.asgi import Client

from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.loaded import InferencePool
from modelwright.serve.registry import Registry

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def save(folder: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], constants: list[Any]) -> Path:
    """Writes an ONNX model; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        folder.name,
        [helper.make_tensor_value_info(*item) for item in inputs],
        [helper.make_tensor_value_info(*item) for item in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    return folder


def affine(folder: Path, factor: float = 2.0) -> Path:
    """y = factor * x + 1 on rows of three."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["m"]), helper.make_node("Add", ["m", "one"], ["y"])]
    constants = [("k", np.float32(factor)), ("one", np.float32(1))]
    return save(folder, nodes, [("x", FLOAT, ["n", 3])], [("y", FLOAT, ["n", 3])], constants)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model folder per name."""
    root = tmp_path_factory.mktemp("models")
    affine(root / "affine")
    affine(root / "triple", factor=3.0)
    save(
        root / "classifier",
        [
            helper.make_node("Softmax", ["x"], ["probabilities"]),
            helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
        ],
        [("x", FLOAT, ["n", 3])],
        [("label", INT64, ["n"]), ("probabilities", FLOAT, ["n", 3])],
        [],
    )
    save(
        root / "pair",
        [helper.make_node("Mul", ["a", "b"], ["product"]), helper.make_node("Sub", ["a", "b"], ["difference"])],
        [("a", FLOAT, ["n", 2]), ("b", FLOAT, ["n", 2])],
        [("product", FLOAT, ["n", 2]), ("difference", FLOAT, ["n", 2])],
        [],
    )
    save(
        root / "text",
        [helper.make_node("Identity", ["s"], ["t"])],
        [("s", STRING, ["n"])],
        [("t", STRING, ["n"])],
        [],
    )
    save(
        root / "total",
        [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0)],
        [("x", FLOAT, ["n", 3])],
        [("sum", FLOAT, [])],
        [],
    )
    save(
        root / "fold",
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        [("x", FLOAT, ["n", "k"])],
        [("y", FLOAT, ["half", 2])],
        [("shape", np.array([-1, 2], np.int64))],
    )
    return root


@pytest.fixture(scope="session")
def asgi_client() -> type[Client]:
    return Client


Serve = Callable[..., Awaitable[Client]]


def config_for(models: Path, *names: str, default: str = "", **rest: Any) -> ServerConfig:
    """A configuration whose versions are named as the model folders."""
    versions = tuple(
        VersionConfig(version=name, number=number, path=str(models / name), labels=(f"label-{name}",))
        for number, name in enumerate(names, 1)
    )
    return ServerConfig(
        model_name="m", framework_type="onnx", versions=versions, default_version=default or names[-1], **rest
    )


@pytest.fixture
async def serve(models: Path) -> AsyncIterator[Serve]:
    """Serves the named model folders; the last is the default."""

    async def start(*names: str, **rest: Any) -> Client:
        registry = Registry(allow_unsafe_formats=False, on_change=lambda: None)
        config = config_for(models, *names, **rest)
        await registry.apply(config)
        return Client(registry, InferencePool(config.max_queue))

    yield start
