"""Joint services in the control loop: their inline models, the gateway that follows them, and what goes with them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.engine.stage import (
    Stage,
    condition,
    inline,
    is_ready,
    is_true,
    nothing_runs_for,
    rounds,
    running,
    stalled_for,
    until,
)

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model_version import ModelVersion
from modelwright.ports.errors import NotFound
from modelwright.ports.workloads import Gateway, Server

pytestmark = pytest.mark.anyio


def gateway(stage: Stage) -> Gateway:
    """The one gateway that runs."""
    servers = [found for found in stage.workloads.applied.values() if isinstance(found, Server)]
    (found,) = [server.program for server in servers if isinstance(server.program, Gateway)]
    return found


async def gone(stage: Stage, type_: type, name: str) -> None:
    async def is_gone() -> bool:
        try:
            await stage.get(type_, name)
        except NotFound:
            return True
        return False

    await until(is_gone, f"{name} to be gone")


async def joined(stage: Stage, **spec: Any) -> Any:
    await stage.version("v1")
    await stage.version("v2")
    await stage.join(inline("edge", "v1"), inline("cloud", "v1"), **spec)
    return await stage.until_ready(JointInferenceService, "joint")


async def test_inline_models_are_made_and_the_gateway_learns_where_they_answer(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        service = await joined(stage)
        models = [await stage.get(InferenceModel, name) for name in ("joint-edge", "joint-cloud")]
    for model in models:
        (owner,) = model.metadata.owner_references
        assert (owner.kind, owner.uid, owner.controller) == (service.kind, service.metadata.uid, True)
    told = gateway(stage)
    assert (told.edge_url, told.cloud_url) == (models[0].status.url, models[1].status.url)
    assert service.status.url.endswith("/v1/models/joint")


async def test_an_inline_model_follows_its_spec_whoever_changes_it(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await joined(stage)
        await stage.change(JointInferenceService, "joint", cloudModel={"spec": inline("cloud", "v2")})
        await stage.until(InferenceModel, "joint-cloud", lambda item: item.status.serving_version == "v2")
        await stage.change(InferenceModel, "joint-cloud", modelVersion="v1", replicas=3)
        await stage.until(
            InferenceModel,
            "joint-cloud",
            lambda item: (item.spec.replicas, item.spec.model_version) == (1, "v2") and is_ready(item),
        )
        await stage.until_ready(JointInferenceService, "joint")


async def test_an_inline_model_that_somebody_deletes_is_made_again(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await joined(stage)
        first = await stage.get(InferenceModel, "joint-edge")
        await stage.delete(InferenceModel, "joint-edge")
        await stage.until(
            InferenceModel, "joint-edge", lambda item: item.metadata.uid != first.metadata.uid and is_ready(item)
        )
        await stage.until_ready(JointInferenceService, "joint")


async def test_a_service_that_names_another_model_drops_the_one_it_had_made(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await joined(stage)
        await stage.serve("v2", "large")
        await stage.change(JointInferenceService, "joint", cloudModel={"name": "large"})
        await gone(stage, InferenceModel, "joint-cloud")
        await stage.until_ready(JointInferenceService, "joint")
        large = await stage.get(InferenceModel, "large")
        assert gateway(stage).cloud_url == large.status.url
        await stage.change(JointInferenceService, "joint", cloudModel={"spec": inline("cloud", "v1")})
        await stage.until_ready(InferenceModel, "joint-cloud")
        await stage.until_ready(JointInferenceService, "joint")
        assert await stage.get(InferenceModel, "large"), "what it has not made it never deletes"


async def test_a_foreign_model_of_an_inline_models_name_is_said_and_left_alone(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v2")
        await stage.serve("v2", "joint-edge")
        mine = await stage.until_ready(InferenceModel, "joint-edge")
        await stage.version("v1")
        await stage.join(inline("edge", "v1"), inline("cloud", "v1"))
        await stage.until(JointInferenceService, "joint", stalled_for("InferenceModelNameTaken"))
        assert (await stage.get(InferenceModel, "joint-edge")).spec == mine.spec
        await stage.delete(InferenceModel, "joint-edge")
        await stage.until_ready(JointInferenceService, "joint")


async def test_a_named_model_that_comes_later_is_noticed(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.serve("v1", "small", deploy_to_layer="edge", node_name="laptop")
        await stage.join({"name": "small"}, {"name": "large"})
        await stage.until(JointInferenceService, "joint", lambda item: is_true(item, "Available"))
        assert not is_true(await stage.get(JointInferenceService, "joint"), "Ready")
        await stage.serve("v1", "large")
        await stage.until_ready(JointInferenceService, "joint")
        url = gateway(stage).cloud_url
        await stage.delete(InferenceModel, "large")
        found = await stage.until(JointInferenceService, "joint", lambda item: not is_true(item, "Ready"))
        assert condition(found, "Ready").reason == "CloudModelNotFound"
        assert is_true(found, "Available"), "the edge answers"
        assert gateway(stage).cloud_url == url, "one that is gone for a while changes nothing"


async def test_all_that_a_service_has_made_goes_with_it(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await joined(stage)
        await stage.delete(JointInferenceService, "joint")
        await nothing_runs_for(stage, "JointInferenceService")
        await nothing_runs_for(stage, "InferenceModel")
        assert (await stage.store.list(InferenceModel)).items == ()
        assert len((await stage.store.list(ModelVersion)).items) == 2


async def test_a_service_of_a_name_that_was_used_before_is_another(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        first = await joined(stage)
        await stage.delete(JointInferenceService, "joint")
        await stage.join(inline("edge", "v2"), inline("cloud", "v2"))
        second = await stage.until_ready(JointInferenceService, "joint")
        model = await stage.get(InferenceModel, "joint-edge")
    assert second.metadata.uid != first.metadata.uid
    assert model.metadata.owner_references[0].uid == second.metadata.uid
    assert model.status.serving_version == "v2"


async def test_a_service_that_is_ready_is_left_alone(stage: Stage) -> None:
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await joined(stage)
        await stage.serve("v1", "stranger")
        await stage.until_ready(InferenceModel, "stranger")
        await rounds(engine, 30)
        revision = stage.revision
        await rounds(engine, 30)
        assert stage.revision == revision
