"""Once everything is as it should be, nothing is written, started or removed, however often it is looked at."""

from __future__ import annotations

import pytest
from tests.integration.engine.memory_workloads import MemoryWorkloads
from tests.integration.engine.stage import Stage, inline, is_true, nothing_runs_for, rounds, running, stalled_for

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Failure

pytestmark = pytest.mark.anyio
VERSIONS = 150


async def everything(stage: Stage) -> None:
    """Objects of all kinds in all the states that last."""
    stage.workloads.failures["broken"] = [Failure(reason="StoragePathNotFound", message="no such folder")]
    stage.workloads.broken["unloadable"] = Failure(reason="ModelBroken", message="it cannot be loaded")
    stage.workloads.refusals["refused"] = Invalid("no such quantity", reason="QuantityInvalid")
    for name in ("v1", "broken", "unloadable"):
        await stage.version(name)
    await stage.serve("v1")
    await stage.serve("v1", "at-the-edge", deploy_to_layer="edge", node_name="laptop", replicas=4)
    await stage.serve("v1", "asleep", replicas=0)
    await stage.serve("v1", "refused")
    await stage.serve("v1", "unknown-framework", framework_type="caffe")
    await stage.serve("broken", "of-broken")
    await stage.serve("unloadable", "unloadable")
    await stage.serve("nowhere", "of-nothing")
    await trainings(stage)
    await stage.join(inline("edge", "v1"), {"name": "served"})
    await stage.join({"name": "at-the-edge"}, {"name": "asleep"}, "half", hardExampleMining={"keep": {"maxBytes": 10}})
    await stage.join({"name": "no-such-model"}, {"name": "nor-this"}, "nothing")


async def trainings(stage: Stage) -> None:
    stage.workloads.failures["hopeless"] = [Failure(reason="ChecksumMismatch", message="another SHA-256")]
    stage.workloads.refusals["forbidden"] = Invalid("no such quantity", reason="QuantityInvalid")
    await stage.train("trained")
    await stage.train("refined", base_model_version="trained")
    await stage.train("hopeless")
    await stage.train("forbidden")
    await stage.train("contained", image="train:1")
    await stage.train("v1")
    await stage.train("waiting", base_model_version="nowhere")
    await stage.train("circle", base_model_version="circle")
    await stage.train("there", base_model_version="back")
    await stage.train("back", base_model_version="there")


async def settled(stage: Stage) -> None:
    await stage.until(ModelVersion, "broken", stalled_for("StoragePathNotFound"))
    for name in ("served", "at-the-edge", "asleep"):
        await stage.until_ready(InferenceModel, name)
    await stage.until(InferenceModel, "refused", stalled_for("QuantityInvalid"))
    await stage.until(InferenceModel, "unknown-framework", stalled_for("FrameworkUnavailable"))
    await stage.until(InferenceModel, "of-broken", stalled_for("ModelVersionStalled"))
    await stage.until(InferenceModel, "unloadable", stalled_for("ModelBroken"))
    await trainings_settled(stage)
    await stage.until_ready(JointInferenceService, "joint")
    await stage.until(JointInferenceService, "half", lambda service: is_true(service, "Available"))
    await stage.until(JointInferenceService, "nothing", lambda service: service.status.url)
    await stage.until(Model, "digits", lambda model: model.status.versions == 5 and model.status.latest_version)


async def trainings_settled(stage: Stage) -> None:
    for name in ("trained", "refined"):
        await stage.until_ready(TrainingModel, name)
    stalled = {
        "hopeless": "ChecksumMismatch",
        "forbidden": "QuantityInvalid",
        "contained": "NeedsContainers",
        "v1": "ModelVersionNameTaken",
        "circle": "BaseModelVersionCycle",
        "there": "BaseModelVersionCycle",
        "back": "BaseModelVersionCycle",
    }
    for name, reason in stalled.items():
        await stage.until(TrainingModel, name, stalled_for(reason), f"{name} to be stalled for {reason}")
    await stage.until(TrainingModel, "waiting", lambda training: is_true(training, "Reconciling"))


async def test_what_is_settled_is_looked_at_and_left_alone(stage: Stage) -> None:
    await everything(stage)
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await settled(stage)
        await rounds(engine, 100)
        revision, calls = stage.revision, list(stage.workloads.calls)
        await rounds(engine, 100)
        assert (stage.revision, stage.workloads.calls) == (revision, calls)


async def test_a_new_engine_finds_nothing_to_do(stage: Stage) -> None:
    await everything(stage)
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await settled(stage)
        await rounds(engine, 100)
    revision, calls = stage.revision, list(stage.workloads.calls)
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await rounds(engine, 100)
    assert (stage.revision, stage.workloads.calls) == (revision, calls)


async def test_each_change_of_state_is_told_once(stage: Stage) -> None:
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await stage.version("v1")
        await stage.serve("v1")
        await stage.until_ready(InferenceModel, "served")
        await rounds(engine, 50)
    told = await stage.events()
    assert told.count("ImageBuilt") == 1
    assert told.count("Serving") == 1
    assert told.count("Tracking") == 1


async def test_a_model_of_many_versions_is_built_counted_and_gone_as_a_whole(stage: Stage) -> None:
    workloads: MemoryWorkloads = stage.workloads
    async with running(stage.store, workloads):
        names = [f"v{number:04}" for number in range(VERSIONS)]
        for name in names:
            await stage.version(name)
        model = await stage.until(Model, "digits", lambda model: model.status.versions == VERSIONS)
        for name in names:
            await stage.until_ready(ModelVersion, name)
        model = await stage.until(Model, "digits", lambda model: model.status.latest_version)
        assert model.status.latest_version.model_version in names
        await nothing_runs_for(stage, "ModelVersion")
        done = [(what, "ModelVersion", name) for name in names for what in ("remove", "start")]
        assert sorted(workloads.calls) == sorted(done)
        await stage.delete(Model, "digits")
        await stage.version("last", model="another")
        await stage.until_ready(ModelVersion, "last")
        assert [found.metadata.name for found in (await stage.store.list(Model)).items] == ["another"]
