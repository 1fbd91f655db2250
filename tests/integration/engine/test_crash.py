"""The engine may die between any two steps: the next one gets to the same end, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.engine.crashing import Steps, store_of, workloads_of
from tests.integration.engine.memory_workloads import MemoryWorkloads
from tests.integration.engine.stage import DEADLINE, Stage, end_state, inline, opened, rounds, running

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.ports.workloads import Failure

pytestmark = pytest.mark.anyio
Story = Callable[[Stage], Coroutine[Any, Any, None]]
Calls = list[tuple[str, str, str]]
Ended = Callable[[Stage], Coroutine[Any, Any, Any]]


async def a_version(stage: Stage) -> None:
    await stage.version("v1")


async def a_version_whose_first_build_fails(stage: Stage) -> None:
    stage.workloads.failures["v1"] = [Failure(reason="NoSuchFolder", message="there is no such folder")]
    await stage.version("v1")


async def a_served_version(stage: Stage) -> None:
    await stage.version("v1")
    await stage.serve("v1", replicas=2)


async def a_training(stage: Stage) -> None:
    await stage.train(workers=2)


async def a_training_that_needs_three_attempts(stage: Stage) -> None:
    stage.workloads.ended_before = timedelta(hours=1)
    stage.workloads.failures["train"] = [
        Failure(reason="CommandFailed", message="exit code 1", retryable=True),
        Failure(reason="Interrupted", message="it was ended", retryable=True),
    ]
    await stage.train(backoff_limit=1)


async def a_training_that_fails_for_good(stage: Stage) -> None:
    stage.workloads.failures["train"] = [Failure(reason="ChecksumMismatch", message="another SHA-256")]
    await stage.train()


async def a_training_that_is_asked_to_start_again(stage: Stage) -> None:
    """It has failed for good when the engine starts, and the request is there."""
    stage.workloads.failures["train"] = [Failure(reason="ChecksumMismatch", message="another SHA-256")]
    await stage.train()
    async with running(stage.store, stage.workloads):
        await failed_for_good(stage)
    await stage.change(TrainingModel, "train", annotate={"modelwright.dev/reconcile-requested-at": "now"})


async def a_training_from_the_result_of_another(stage: Stage) -> None:
    await stage.train("second", base_model_version="first")
    await stage.train("first")


async def a_joint_service(stage: Stage) -> None:
    await stage.version("v1")
    await stage.join(inline("edge", "v1"), inline("cloud", "v1"))


async def built(stage: Stage) -> Any:
    await stage.until_ready(ModelVersion, "v1")
    return await stage.until(Model, "digits", lambda model: model.status.latest_version)


async def given_up(stage: Stage) -> Any:
    return await stage.until(ModelVersion, "v1", lambda item: item.status.image_build_phase == "ImageBuildFailed")


async def serving(stage: Stage) -> Any:
    await built(stage)
    return await stage.until_ready(InferenceModel, "served")


async def trained(stage: Stage) -> Any:
    assert stage.workloads.overlaps == []
    await stage.until_ready(TrainingModel, "train")
    return await stage.until(Model, "digits", lambda model: model.status.latest_version)


async def failed_for_good(stage: Stage) -> Any:
    return await stage.until(TrainingModel, "train", lambda item: item.status.phase == "Failed")


async def both_trained(stage: Stage) -> Any:
    await stage.until_ready(TrainingModel, "first")
    await stage.until_ready(TrainingModel, "second")
    return await stage.until(Model, "digits", lambda model: model.status.versions == 2)


async def joined(stage: Stage) -> Any:
    await built(stage)
    return await stage.until_ready(JointInferenceService, "joint")


STORIES = [
    (a_version, built),
    (a_version_whose_first_build_fails, given_up),
    (a_served_version, serving),
    (a_training, trained),
    (a_training_that_needs_three_attempts, trained),
    (a_training_that_fails_for_good, failed_for_good),
    (a_training_that_is_asked_to_start_again, trained),
    (a_training_from_the_result_of_another, both_trained),
    (a_joint_service, joined),
]


async def undisturbed(path: Path, story: Story, ended: Ended) -> tuple[int, Any, Calls]:
    """How many steps it takes, the state at the end, and what was done to workloads."""
    workloads, steps = MemoryWorkloads(), Steps()
    async with opened(path) as store:
        stage = Stage(store, workloads)
        await story(stage)
        async with running(store_of(store, steps), workloads_of(workloads, steps), resync=0.02) as engine:
            await ended(stage)
            count = steps.count
            await rounds(engine, 10)
        return count, await end_state(stage), done(workloads)


async def crashed(path: Path, story: Story, ended: Ended, steps: Steps) -> tuple[Any, Calls]:
    """The same when the engine dies at a step: the store is opened anew, with a new engine on it."""
    workloads = MemoryWorkloads()
    async with opened(path) as store:
        stage = Stage(store, workloads)
        await story(stage)
        async with running(store_of(store, steps), workloads_of(workloads, steps)):
            await first(steps.crashed.wait(), ended(stage))
    async with opened(path) as store, running(store, workloads, resync=0.02) as engine:
        stage = Stage(store, workloads)
        await ended(stage)
        await rounds(engine, 10)
        return await end_state(stage), done(workloads)


def done(workloads: MemoryWorkloads) -> Calls:
    """What was started and removed, and how often; what was changed: a gateway learns of its models in any order."""
    changes = {call for call in workloads.calls if call[0] == "change"}
    return sorted([*changes, *(call for call in workloads.calls if call[0] != "change")])


async def first(*things: Coroutine[Any, Any, Any]) -> None:
    """Wait for one of them; the last steps of a story may come in another order, or after its end."""
    tasks = [asyncio.create_task(thing) for thing in things]
    done, others = await asyncio.wait(tasks, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.wait(tasks)
    for task in done:
        task.result()


@pytest.mark.parametrize(("story", "ended"), STORIES, ids=[story.__name__ for story, _ in STORIES])
async def test_a_crash_at_any_step_leads_to_the_same_end(tmp_path: Path, story: Story, ended: Ended) -> None:
    count, state, calls = await undisturbed(tmp_path / "undisturbed", story, ended)
    assert count > 3
    for number in range(1, count + 1):
        for after in (False, True):
            path = tmp_path / f"{number}-{after}"
            seen = await crashed(path, story, ended, Steps(number, after=after))
            assert seen == (state, calls), f"crash {'after' if after else 'before'} step {number}"
