"""Tiny models, and real server processes on them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.integration.serve.site import Client, Load, Site, wait_for


def times_model(folder: Path, factor: int) -> Path:
    """y = factor * x on rows of two."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        "times",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(np.array(factor, np.float32), "k")],
    )
    folder.mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders "1" to "9", each with a model that multiplies by its number."""
    root = tmp_path_factory.mktemp("models")
    for factor in range(1, 10):
        times_model(root / str(factor), factor)
    return root


@pytest.fixture
def site(tmp_path: Path, models: Path) -> Iterator[Site]:
    found = Site(tmp_path, models)
    yield found
    for process in found.processes:
        process.popen.kill()
        process.popen.wait()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket that the test holds as a supervisor does."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as found:
        yield found


@pytest.fixture
def load() -> Callable[[int], contextlib.AbstractContextManager[Load]]:
    return Load


@pytest.fixture
def client() -> type[Client]:
    return Client


@pytest.fixture
def until() -> Callable[[Callable[[], Any], str], Any]:
    return wait_for
