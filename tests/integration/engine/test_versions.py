"""Switching, rolling back, scaling and pausing what is served: what is said of it must be true at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.integration.engine.stage import (
    NS,
    Stage,
    condition,
    is_ready,
    is_true,
    nothing_runs_for,
    running,
    stalled_for,
)

from modelwright.api.inference_model import InferenceModel
from modelwright.api.model_version import ModelVersion
from modelwright.ports.workloads import Failure, ModelImage, ModelServer, Server

pytestmark = pytest.mark.anyio
SUSPEND = "modelwright.dev/suspend"
AGAIN = "modelwright.dev/reconcile-requested-at"


@asynccontextmanager
async def states_of(stage: Stage) -> AsyncIterator[list[InferenceModel]]:
    """Every state of every InferenceModel that anybody could have seen meanwhile."""
    seen: list[InferenceModel] = []
    start = (await stage.store.list(InferenceModel)).version

    async def follow() -> None:
        async for change in stage.store.watch(InferenceModel, start):
            seen.extend(found for found in (change.resource,) if found is not None)

    task = asyncio.create_task(follow())
    yield seen

    async def caught_up() -> None:
        newest = (await stage.get(InferenceModel, "served")).metadata.resource_version
        while not seen or seen[-1].metadata.resource_version != newest:
            await asyncio.sleep(0.002)

    await asyncio.wait_for(caught_up(), 30)
    task.cancel()
    await asyncio.wait([task])


def the_server(stage: Stage) -> Server:
    (found,) = [item for item in stage.workloads.applied.values() if isinstance(item, Server)]
    return found


def image_of(server: Server) -> str:
    assert isinstance(server.program, ModelServer)
    (version,) = server.program.versions
    assert isinstance(version.source, ModelImage)
    return version.source.image


def handled(request: str) -> Callable[[Any], bool]:
    return lambda resource: bool(resource.status.last_handled_reconcile_at == request)


def served(model: InferenceModel) -> list[str]:
    return [entry.source.model_version for entry in model.status.history]


async def test_nothing_is_ready_for_a_version_that_does_not_serve_yet(stage: Stage) -> None:
    async with running(stage.store, stage.workloads), states_of(stage) as states:
        await stage.version("v1")
        await stage.version("v2")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        await stage.change(InferenceModel, "served", modelVersion="v2")
        await stage.until_ready(InferenceModel, "served")
    for state in states:
        if is_ready(state):
            assert state.status.serving_version == state.spec.model_version
            assert state.status.url
        assert len(state.status.history) < 2 or state.status.serving_version == "v2"
    assert served(states[-1]) == ["v1", "v2"]


async def test_a_version_that_never_serves_is_not_in_the_history(stage: Stage) -> None:
    stage.workloads.broken["v2"] = Failure(reason="ModelBroken", message="it cannot be loaded")
    async with running(stage.store, stage.workloads), states_of(stage) as states:
        await stage.version("v1")
        await stage.version("v2")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        await stage.change(InferenceModel, "served", modelVersion="v2")
        found = await stage.until(InferenceModel, "served", stalled_for("ModelBroken"))
        assert found.status.serving_version == "v1"
        assert is_true(found, "Available")
        await stage.change(InferenceModel, "served", replicas=3)
        await stage.until(InferenceModel, "served", lambda item: condition(item, "Stalled").observed_generation == 3)
        assert the_server(stage).replicas == 3
        await stage.change(InferenceModel, "served", modelVersion="v1")
        found = await stage.until_ready(InferenceModel, "served")
    assert served(found) == ["v1"]
    assert not any(is_ready(state) and state.spec.model_version == "v2" for state in states)


async def test_a_rollback_is_one_more_entry_of_the_history(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        for name in ("v1", "v2"):
            await stage.version(name)
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        for name in ("v2", "v1"):
            await stage.change(InferenceModel, "served", modelVersion=name)
            found = await stage.until_ready(InferenceModel, "served")
    assert served(found) == ["v1", "v2", "v1"]


@pytest.mark.parametrize("change", [{"replicas": 3}, {"servingPort": 9100}, {"resources": {"limits": {"cpu": "2"}}}])
async def test_another_shape_of_the_same_version_is_ready_only_once_it_runs(stage: Stage, change: object) -> None:
    async with running(stage.store, stage.workloads), states_of(stage) as states:
        await stage.version("v1")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        stage.workloads.pause()
        await stage.change(InferenceModel, "served", **change)  # type: ignore[arg-type]
        await stage.until(InferenceModel, "served", lambda item: item.status.observed_generation == 2)
        assert not any(is_ready(state) and state.metadata.generation == 2 for state in states)
        stage.workloads.go_on()
        found = await stage.until_ready(InferenceModel, "served")
    assert found.status.ready_replicas == found.spec.replicas
    assert served(found) == ["v1"]


async def test_a_version_that_is_never_built_leaves_all_as_it_is_and_the_way_back_open(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        before = list(stage.workloads.calls)
        await stage.change(InferenceModel, "served", modelVersion="never", replicas=2)
        found = await stage.until(
            InferenceModel, "served", lambda item: condition(item, "Ready").reason == "ModelVersionNotFound"
        )
        assert found.status.serving_version == "v1"
        assert "what runs is left as it is" in condition(found, "Ready").message
        await stage.change(InferenceModel, "served", modelVersion="v1", replicas=1)
        found = await stage.until_ready(InferenceModel, "served")
    assert served(found) == ["v1"]
    assert stage.workloads.calls == before


async def test_scaling_to_nothing_needs_no_version(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        await stage.delete(ModelVersion, "v1")
        await stage.until(InferenceModel, "served", lambda item: not is_true(item, "Ready"))
        assert stage.workloads.names("InferenceModel") == ["served"]
        await stage.change(InferenceModel, "served", replicas=0)
        found = await stage.until(InferenceModel, "served", lambda item: not item.status.url)
    assert stage.workloads.names("InferenceModel") == []
    assert not is_true(found, "Available")


async def test_what_serves_goes_on_when_its_version_is_deleted_and_follows_one_made_anew(stage: Stage) -> None:
    async with running(stage.store, stage.workloads), states_of(stage) as states:
        await stage.version("v1")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        old = image_of(the_server(stage))
        await stage.delete(ModelVersion, "v1")
        found = await stage.until(InferenceModel, "served", lambda item: not is_true(item, "Ready"))
        assert found.status.url
        assert image_of(the_server(stage)) == old
        stage.workloads.pause()
        await stage.version("v1", path="/models/another")
        await stage.until(ModelVersion, "v1", lambda item: item.status.image_build_phase == "ImageBuilding")
        assert image_of(the_server(stage)) == old
        stage.workloads.go_on()
        await stage.until_ready(InferenceModel, "served")
        made = await stage.get(ModelVersion, "v1")
        new = image_of(the_server(stage))
    assert new != old
    assert new == made.status.resolved_image
    ready = [condition(state, "Ready").status for state in states if condition(state, "Ready") is not None]
    assert [a for a, b in zip(ready, [*ready[1:], ""], strict=True) if a != b] == ["False", "True", "False", "True"]


async def test_a_suspended_model_stays_as_it_is_until_it_is_not(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.version("v2")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        await stage.until_ready(ModelVersion, "v2")
        await stage.change(InferenceModel, "served", annotate={SUSPEND: "true"}, modelVersion="v2")
        await stage.serve("v1", "other")
        await stage.until_ready(InferenceModel, "other")
        found = await stage.get(InferenceModel, "served")
        assert (found.status.observed_generation, found.metadata.generation) == (1, 2)
        assert found.status.serving_version == "v1"
        await stage.change(InferenceModel, "served", annotate={SUSPEND: None})
        found = await stage.until_ready(InferenceModel, "served")
    assert found.status.serving_version == "v2"


async def test_a_suspended_model_that_is_deleted_stops(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        await stage.change(InferenceModel, "served", annotate={SUSPEND: "true"})
        await stage.delete(InferenceModel, "served")
        await nothing_runs_for(stage, "InferenceModel")


@pytest.mark.parametrize("request_text", ["2026-01-01T00:00:00Z", "x" * 5000], ids=["a time", "a long text"])
async def test_a_request_to_look_again_is_handled_in_every_state(stage: Stage, request_text: str) -> None:
    """Never built here, failed for good, and built; served and waiting."""
    stage.workloads.failures["broken"] = [Failure(reason="StoragePathNotFound", message="no such folder")]
    async with running(stage.store, stage.workloads):
        await stage.version("built")
        await stage.version("broken")
        await stage.store.resources.create(stage.definition(ModelVersion), NS, on_nfs())
        await stage.serve("built")
        await stage.serve("nowhere", "waiting")
        await stage.until_ready(ModelVersion, "built")
        await stage.until(ModelVersion, "broken", stalled_for("StoragePathNotFound"))
        await stage.until(ModelVersion, "nfs", stalled_for("StorageNotSupported"))
        await stage.until_ready(InferenceModel, "served")
        subjects: list[tuple[type, str]] = [(ModelVersion, "built"), (ModelVersion, "broken"), (ModelVersion, "nfs")]
        subjects += [(InferenceModel, "served"), (InferenceModel, "waiting")]
        for kind, name in subjects:
            await stage.change(kind, name, annotate={AGAIN: request_text})
            await stage.until(
                kind, name, lambda item: item.status.last_handled_reconcile_at == request_text[:256], name
            )
        mended = await stage.until_ready(ModelVersion, "broken")
        nfs = await stage.get(ModelVersion, "nfs")
    assert mended.status.image_digest
    assert nfs.status.image_build_phase is None


def on_nfs() -> dict[str, object]:
    storage = {"nfs": {"server": "files.test", "path": "/models"}}
    spec = {"modelName": "digits", "imageRepo": "hub/digits", "storage": storage}
    return {"metadata": {"name": "nfs"}, "spec": spec}
