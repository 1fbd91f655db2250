"""Loading, switching and unloading of versions."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from modelwright.http.asgi import RequestError
from modelwright.ports.errors import ModelwrightError
from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.loaded import InferencePool, LoadedModel, Recipe
from modelwright.serve.registry import Registry
from modelwright.serve.tensors import TensorSpec
from modelwright.serve.warmup import elements, warm_up, zeros


class Recorder:
    """A registry and all the states that it has shown."""

    def __init__(self, models: Path) -> None:
        self.models = models
        self.shown: list[dict[str, str]] = []
        self.registry = Registry(allow_unsafe_formats=False, on_change=self.note)

    def note(self) -> None:
        self.shown.append({name: state.state for name, state in self.registry.states.items()})

    def config(self, *names: str, default: str = "") -> ServerConfig:
        versions = tuple(VersionConfig(name, number, str(self.models / name)) for number, name in enumerate(names, 1))
        return ServerConfig("m", "onnx", versions, default or names[-1])

    async def apply(self, *names: str, default: str = "") -> None:
        await self.registry.apply(self.config(*names, default=default))

    @property
    def states(self) -> dict[str, str]:
        return {name: state.state for name, state in self.registry.states.items()}


@pytest.fixture
def recorder(models: Path) -> Recorder:
    return Recorder(models)


@pytest.mark.anyio
async def test_a_switch_loads_first_then_switches_then_unloads(recorder: Recorder) -> None:
    await recorder.apply("affine")
    recorder.shown.clear()
    await recorder.apply("triple")
    assert recorder.registry.default_version == "triple"
    assert {"affine": "ready", "triple": "loading"} in recorder.shown
    assert recorder.states == {"triple": "ready"}


@pytest.mark.anyio
async def test_a_bad_default_leaves_everything_that_served(recorder: Recorder) -> None:
    await recorder.apply("affine", "triple")
    await recorder.apply("missing")
    assert recorder.registry.default_version == "triple"
    assert recorder.states == {"affine": "ready", "triple": "ready", "missing": "failed"}
    assert recorder.registry.states["missing"].reason == "ModelNotFound"
    await recorder.apply("affine")
    assert recorder.states == {"affine": "ready"}


@pytest.mark.anyio
async def test_a_bad_version_beside_a_good_default_is_only_reported(recorder: Recorder) -> None:
    await recorder.apply("affine")
    await recorder.apply("missing", "triple")
    assert recorder.registry.default_version == "triple"
    assert recorder.states == {"missing": "failed", "triple": "ready"}


@pytest.mark.anyio
async def test_after_a_restart_with_a_bad_default_the_newest_good_version_serves(recorder: Recorder) -> None:
    await recorder.apply("affine", "triple", "missing")
    assert recorder.registry.default_version == "triple"


@pytest.mark.anyio
async def test_what_is_loaded_is_not_loaded_again_but_its_number_follows(recorder: Recorder) -> None:
    await recorder.apply("affine", "triple")
    before = recorder.registry.serving.versions["triple"].model
    await recorder.apply("triple")
    assert recorder.registry.serving.versions["triple"].model is before
    assert list(recorder.registry.serving.numbers) == ["1"]


@pytest.mark.anyio
async def test_another_path_for_the_same_version_is_loaded_and_a_bad_one_changes_nothing(
    recorder: Recorder, tmp_path: Path
) -> None:
    def at(path: Path) -> ServerConfig:
        return ServerConfig("m", "onnx", (VersionConfig("v1", 1, str(path)),), "v1")

    await recorder.registry.apply(at(recorder.models / "affine"))
    first = recorder.registry.serving.default
    await recorder.registry.apply(at(tmp_path / "none"))
    assert recorder.registry.serving.default is first
    assert recorder.states == {"v1": "failed"}
    assert "the former content of v1 keeps serving" in recorder.registry.states["v1"].message
    shutil.copytree(recorder.models / "triple", tmp_path / "new")
    await recorder.registry.apply(at(tmp_path / "new"))
    assert recorder.registry.serving.default is not first
    assert recorder.states == {"v1": "ready"}


@pytest.mark.anyio
async def test_a_version_is_released_after_its_last_request(recorder: Recorder) -> None:
    await recorder.apply("affine")
    old = recorder.registry.serving.versions["affine"]
    with old:
        await recorder.apply("triple")
        assert recorder.states == {"triple": "ready", "affine": "unloading"}
        assert old.model.predict({"x": np.zeros((1, 3), np.float32)})["y"].tolist() == [[1.0, 1.0, 1.0]]
    assert recorder.states == {"triple": "ready"}


class Scripted:
    """A model that does what a test says."""

    platform = "test"
    outputs = (TensorSpec("y", "FP32", (-1,)),)
    primary = ("y",)

    def __init__(self, *shape: int, datatype: str = "FP32") -> None:
        self.inputs = (TensorSpec("x", datatype, shape),)
        self.seen: list[tuple[int, ...]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fail = False

    def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(inputs["x"].shape)
        assert self.gate.wait(30)
        if self.fail:
            raise ValueError("no such values")
        return {"y": np.zeros(1, np.float32)}


def test_the_warm_up_runs_on_zeros_of_the_declared_shape() -> None:
    model = Scripted(-1, 3, -1)
    assert warm_up(model) > elements(zeros(model.inputs, rows=1))
    assert set(model.seen) == {(1, 3, 1), (32, 3, 1)}


def test_a_fixed_shape_is_run_as_it_is() -> None:
    model = Scripted(4, 3)
    assert warm_up(model) >= 12
    assert set(model.seen) == {(4, 3)}


def test_a_model_that_cannot_run_is_refused_unless_its_free_dimensions_may_be_the_reason() -> None:
    broken = Scripted(-1, 3)
    broken.fail = True
    with pytest.raises(ModelwrightError, match="zeros of its own shapes") as caught:
        warm_up(broken)
    assert caught.value.reason == "ModelInvalid"
    needs_more = Scripted(-1, 3, -1, -1)
    needs_more.fail = True
    assert warm_up(needs_more) == 0


def test_strings_are_warmed_with_empty_strings() -> None:
    assert zeros(Scripted(-1, 2, datatype="BYTES").inputs, rows=2)["x"].tolist() == [["", ""], ["", ""]]


def loaded(model: Scripted, inline_limit: int) -> LoadedModel:
    return LoadedModel(VersionConfig("v1", 1, "/"), Recipe("/", "test", 0), model, inline_limit, 0.0)


@pytest.mark.anyio
async def test_small_requests_run_on_the_loop_and_large_ones_in_a_thread() -> None:
    threads: list[str] = []

    class Naming(Scripted):
        def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
            threads.append(threading.current_thread().name)
            return super().predict(inputs)

    version, pool = loaded(Naming(-1, 2), inline_limit=4), InferencePool(1)
    await version.predict(version.function(), {"x": np.zeros((2, 2))}, pool)
    await version.predict(version.function(), {"x": np.zeros((3, 2))}, pool)
    assert threads[0] == threading.current_thread().name
    assert threads[1].startswith("inference")


@pytest.mark.anyio
async def test_a_full_queue_refuses_at_once_and_empties_again() -> None:
    model, pool = Scripted(-1, 2), InferencePool(max_queue=1)
    version, request = loaded(model, inline_limit=0), {"x": np.zeros((1, 2))}
    model.gate.clear()
    waiting = [
        asyncio.ensure_future(version.predict(version.function(), request, pool)) for _ in range(pool.workers + 1)
    ]
    await asyncio.sleep(0)
    with pytest.raises(RequestError, match="overloaded") as caught:
        await version.predict(version.function(), request, pool)
    assert (caught.value.status, caught.value.headers) == (503, ((b"retry-after", b"1"),))
    model.gate.set()
    await asyncio.gather(*waiting)
    assert pool.pending == 0


@pytest.mark.anyio
async def test_values_that_a_model_refuses_are_the_clients_fault() -> None:
    model, pool = Scripted(-1, 2), InferencePool(1)
    model.fail = True
    for limit in (0, 100):
        with pytest.raises(RequestError, match="no such values") as caught:
            version = loaded(model, limit)
            await version.predict(version.function(), {"x": np.zeros((1, 2))}, pool)
        assert caught.value.status == 400


def test_a_recipe_is_the_path_the_framework_and_the_threads() -> None:
    config = ServerConfig("m", "onnx", (VersionConfig("v1", 1, "/a"),), "v1", threads=2)
    recipe = Recipe.of(config.versions[0], config)
    assert recipe == Recipe("/a", "onnx", 2)
    assert recipe != Recipe.of(msgspec.structs.replace(config.versions[0], path="/b"), config)
