"""Trainings in the control loop: what wakes them, what ends them, and what is left of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.integration.engine.stage import Stage, is_true, nothing_runs_for, rounds, running, stalled_for, until

from modelwright.api.inference_model import InferenceModel
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.ports.workloads import Command, Failure, ModelImage, Task

pytestmark = pytest.mark.anyio
SUSPEND = "modelwright.dev/suspend"
AGAIN = "modelwright.dev/reconcile-requested-at"
BROKE = Failure(reason="CommandFailed", message="exit code 1", retryable=True)
HOPELESS = Failure(reason="ChecksumMismatch", message="another SHA-256")


def waits_for(reason: str) -> Any:
    def waits(training: TrainingModel) -> bool:
        return any(each.type == "Reconciling" and each.reason == reason for each in training.status.conditions)

    return waits


def tasks_of(stage: Stage, name: str) -> list[Task]:
    found = stage.workloads.applied.values()
    return [task for task in found if isinstance(task, Task) and task.owner.name == name]


async def test_a_training_becomes_a_version_that_can_be_named_and_served_beforehand(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.serve("train")
        await stage.train(workers=3)
        training = await stage.until_ready(TrainingModel, "train")
        served = await stage.until_ready(InferenceModel, "served")
        version = await stage.get(ModelVersion, "train")
    status = training.status
    assert (status.phase, status.attempts, status.failures, status.model_version) == ("Succeeded", 1, 0, "train")
    assert (status.workers.succeeded, status.node_name) == (3, "laptop")
    assert status.start_time <= status.completion_time
    assert served.status.serving_version == "train"
    assert version.spec.lineage.training_model == "train"
    assert {owner.kind for owner in version.metadata.owner_references} == {"Model"}


async def test_each_step_of_a_training_is_told_once(stage: Stage) -> None:
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await stage.train()
        await stage.until_ready(TrainingModel, "train")
        await rounds(engine, 50)
    told = await stage.events()
    for reason in ("TrainingPending", "TrainingSucceeded", "ModelVersionReady", "ImageBuilt"):
        assert told.count(reason) == 1, f"{reason} in {told}"


async def test_failed_attempts_are_followed_by_others_until_one_succeeds(stage: Stage) -> None:
    stage.workloads.failures["train"] = [BROKE, BROKE]
    stage.workloads.ended_before = timedelta(hours=1)
    async with running(stage.store, stage.workloads):
        await stage.train(backoff_limit=2)
        training = await stage.until_ready(TrainingModel, "train")
    assert (training.status.attempts, training.status.failures) == (3, 2)
    assert len(tasks_of(stage, "train")) == 1, "only the last is kept, for its logs"
    assert stage.workloads.overlaps == []


async def test_a_failed_training_is_started_again_when_asked(stage: Stage) -> None:
    stage.workloads.failures["train"] = [HOPELESS]
    async with running(stage.store, stage.workloads):
        await stage.train()
        await stage.until(TrainingModel, "train", stalled_for("ChecksumMismatch"))
        await stage.change(TrainingModel, "train", annotate={AGAIN: "now"})
        training = await stage.until_ready(TrainingModel, "train")
    assert (training.status.attempts, training.status.failures) == (2, 0)
    assert training.status.last_handled_reconcile_at == "now"


async def test_a_training_starts_when_its_base_version_has_its_image(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.train(base_model_version="base")
        await stage.until(TrainingModel, "train", waits_for("BaseModelVersionNotFound"))
        stage.workloads.pause()
        await stage.version("base")
        await stage.until(TrainingModel, "train", waits_for("BaseModelVersionNotReady"))
        assert tasks_of(stage, "train") == []
        stage.workloads.go_on()
        await stage.until_ready(TrainingModel, "train")
        base = await stage.get(ModelVersion, "base")
    (task,) = tasks_of(stage, "train")
    assert isinstance(task.action, Command)
    assert ModelImage(image=base.status.resolved_image) in [mount.volume for mount in task.action.mounts]


async def test_a_base_version_that_cannot_be_built_is_said(stage: Stage) -> None:
    stage.workloads.failures["base"] = [Failure(reason="StoragePathNotFound", message="no such folder")]
    async with running(stage.store, stage.workloads):
        await stage.train(base_model_version="base")
        await stage.version("base")
        found = await stage.until(TrainingModel, "train", stalled_for("BaseModelVersionStalled"))
        assert "no such folder" in found.status.message
        await stage.change(ModelVersion, "base", annotate={AGAIN: "now"})
        await stage.until_ready(TrainingModel, "train")


async def test_trainings_in_a_circle_are_all_told_whichever_came_last(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.train("a", base_model_version="b")
        await stage.train("b", base_model_version="c")
        await stage.until(TrainingModel, "b", waits_for("BaseModelVersionNotFound"))
        await stage.train("c", base_model_version="a")
        for name in ("a", "b", "c"):
            await stage.until(TrainingModel, name, stalled_for("BaseModelVersionCycle"))
        await stage.delete(TrainingModel, "c")
        for name in ("a", "b"):
            await stage.until(TrainingModel, name, waits_for("BaseModelVersionNotFound"))
        await stage.train("c")
        for name in ("a", "b", "c"):
            await stage.until_ready(TrainingModel, name)


async def test_a_name_that_is_taken_is_said_and_used_once_it_is_free(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("train", path="/models/mine")
        await stage.until_ready(ModelVersion, "train")
        await stage.train()
        await stage.until(TrainingModel, "train", stalled_for("ModelVersionNameTaken"))
        assert tasks_of(stage, "train") == []
        await stage.delete(ModelVersion, "train")
        await stage.until_ready(TrainingModel, "train")
        version = await stage.get(ModelVersion, "train")
    assert version.spec.storage.local_storage.path == "/models/train"


async def test_a_version_that_is_deleted_is_not_made_again(stage: Stage) -> None:
    async with running(stage.store, stage.workloads, resync=0.02) as engine:
        await stage.train()
        await stage.until_ready(TrainingModel, "train")
        await stage.delete(ModelVersion, "train")
        await stage.until(TrainingModel, "train", lambda item: "not run again" in item.status.message)
        await stage.change(TrainingModel, "train", annotate={AGAIN: "now"})
        await stage.until(TrainingModel, "train", lambda item: item.status.last_handled_reconcile_at == "now")
        await rounds(engine, 50)
        assert (await stage.store.list(ModelVersion)).items == ()
    assert stage.workloads.calls.count(("start", "TrainingModel", "train")) == 1


async def test_a_training_that_is_deleted_stops_and_leaves_its_version(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.train()
        await stage.until_ready(TrainingModel, "train")
        await stage.delete(TrainingModel, "train")
        await nothing_runs_for(stage, "TrainingModel")
        assert await stage.get(ModelVersion, "train")
        await stage.delete(Model, "digits")
        assert (await stage.store.list(ModelVersion)).items == ()


async def test_a_training_that_is_deleted_while_it_runs_makes_nothing(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        stage.workloads.pause()
        await stage.train()
        await stage.until(TrainingModel, "train", lambda item: item.status.attempts == 1)
        await stage.delete(TrainingModel, "train")
        await nothing_runs_for(stage, "TrainingModel")
        stage.workloads.go_on()
        await stage.train("other")
        await stage.until_ready(TrainingModel, "other")
        assert [found.metadata.name for found in (await stage.store.list(ModelVersion)).items] == ["other"]


async def test_a_training_of_a_name_that_was_used_before_is_another(stage: Stage) -> None:
    """It does not take the former one's version for its own."""
    async with running(stage.store, stage.workloads):
        await stage.train()
        await stage.until_ready(TrainingModel, "train")
        await stage.delete(TrainingModel, "train")
        await stage.train()
        await stage.until(TrainingModel, "train", stalled_for("ModelVersionNameTaken"))
    assert stage.workloads.calls.count(("start", "TrainingModel", "train")) == 1


async def test_a_suspended_training_starts_once_it_is_not_suspended_any_more(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.train(annotations={SUSPEND: "true"})
        await stage.train("other")
        await stage.until_ready(TrainingModel, "other")
        assert tasks_of(stage, "train") == []
        await stage.change(TrainingModel, "train", annotate={SUSPEND: None})
        await stage.until_ready(TrainingModel, "train")


async def test_a_request_in_every_state_leads_to_a_status_that_can_be_stored(stage: Stage) -> None:
    stage.workloads.failures["failed"] = [HOPELESS]
    async with running(stage.store, stage.workloads):
        for name in ("ended", "failed"):
            await stage.train(name)
        await stage.train("waiting", base_model_version="nowhere")
        await stage.train("stalled", image="train:1")
        await stage.until_ready(TrainingModel, "ended")
        await stage.until(TrainingModel, "failed", stalled_for("ChecksumMismatch"))
        for name in ("ended", "failed", "waiting", "stalled"):
            await stage.change(TrainingModel, name, annotate={AGAIN: "x" * 5000})
            await stage.until(TrainingModel, name, lambda item: item.status.last_handled_reconcile_at == "x" * 256)
        await stage.until_ready(TrainingModel, "failed")


async def test_a_store_that_refuses_the_version_is_said(stage: Stage) -> None:
    """What was trained waits, and becomes the version once the store takes it."""

    class Refusing:
        """A store that takes no ModelVersion."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.open = False

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def create(self, resource: Any) -> Any:
            if isinstance(resource, ModelVersion) and not self.open:
                spec = msgspec.structs.replace(resource.spec, model_name="No Such Name")
                resource = msgspec.structs.replace(resource, spec=spec)
            return await self._inner.create(resource)

    store = Refusing(stage.store)
    async with running(store, stage.workloads):
        await stage.train()
        found = await stage.until(TrainingModel, "train", lambda item: is_true(item, "Stalled"))
        assert "spec.modelName" in found.status.message
        assert is_true(found, "Succeeded")
        store.open = True
        await stage.until_ready(TrainingModel, "train")


async def test_all_that_wait_for_one_base_start(stage: Stage) -> None:
    names = [f"t{number:03}" for number in range(100)]
    async with running(stage.store, stage.workloads):
        for name in names:
            await stage.train(name, base_model_version="base")
        await stage.train("base")

        async def all_started() -> bool:
            return set(stage.workloads.names("TrainingModel")) >= set(names)

        await until(all_started, "all to start")
        for name in names:
            await stage.until_ready(TrainingModel, name)
    assert stage.workloads.overlaps == []
