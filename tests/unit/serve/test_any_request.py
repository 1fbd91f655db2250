"""Whatever a client sends, the answer is JSON and never the server's fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.registry import Registry

NUMBERS = st.integers(-5, 5) | st.integers() | st.floats() | st.sampled_from([2**63, 1e39, -1, 0])
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "b64", "c"]), inner, max_size=3)
    ),
    max_leaves=12,
)
SHAPES = st.lists(st.integers(-1, 4), max_size=3) | VALUES
INPUTS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", "c"]),
        "shape": SHAPES,
        "datatype": st.sampled_from(["FP32", "BYTES", "INT8", "x"]),
    },
    optional={"data": VALUES, "parameters": VALUES},
)
INFER = st.fixed_dictionaries(
    {"inputs": st.lists(INPUTS, max_size=3) | VALUES}, optional={"outputs": VALUES, "id": LEAVES, "parameters": VALUES}
)
PREDICT = st.fixed_dictionaries({}, optional={"instances": VALUES, "inputs": VALUES, "signature_name": LEAVES})
BODIES = st.tuples(st.just("/v2/models/m/infer"), INFER) | st.tuples(st.just("/v1/models/m:predict"), PREDICT)


class Served:
    """A client of each model, on a loop that lives as long as the test."""

    def __init__(self, client: type[Any], models: Path, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._clients = [self._client(client, models, name) for name in ("pair", "affine", "text", "fold")]

    def _client(self, client: type[Any], models: Path, name: str) -> Any:
        registry = Registry(allow_unsafe_formats=False, on_change=lambda: None)
        version = VersionConfig("v1", 1, str(models / name))
        self._runner.run(registry.apply(ServerConfig("m", "onnx", (version,), "v1")))
        return client(registry)

    def answers(self, path: str, body: bytes, header: bytes) -> list[Any]:
        headers = ((b"inference-header-content-length", header),) if header else ()
        return [self._runner.run(client.ask("POST", path, body, headers=headers)) for client in self._clients]


@pytest.fixture(scope="module")
def served(models: Path, asgi_client: type[Any]) -> Iterator[Served]:
    with asyncio.Runner() as runner:
        yield Served(asgi_client, models, runner)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BODIES, st.binary(max_size=12), st.sampled_from([b"", b"JSON", b"7", b"x"]))
def test_no_body_makes_the_server_fail(served: Served, case: tuple[str, Any], tail: bytes, header: bytes) -> None:
    path, value = case
    head = json.dumps(value).encode()
    header = str(len(head)).encode() if header == b"JSON" else header
    for answer in served.answers(path, head + tail if header else head, header):
        assert answer.status in (200, 400), (value, answer)
        if answer.status == 400:
            assert list(answer.json) == ["error"]
