"""The engine may die between any two steps: the next one gets to the same end, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.integration.engine.crashing import Steps, store_of, workloads_of
from tests.integration.engine.memory_workloads import MemoryWorkloads
from tests.integration.engine.stage import DEADLINE, Stage, end_state, opened, rounds, running

from modelwright.api.inference_model import InferenceModel
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
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


async def built(stage: Stage) -> Any:
    await stage.until_ready(ModelVersion, "v1")
    return await stage.until(Model, "digits", lambda model: model.status.latest_version)


async def given_up(stage: Stage) -> Any:
    return await stage.until(ModelVersion, "v1", lambda item: item.status.image_build_phase == "ImageBuildFailed")


async def serving(stage: Stage) -> Any:
    await built(stage)
    return await stage.until_ready(InferenceModel, "served")


STORIES = [(a_version, built), (a_version_whose_first_build_fails, given_up), (a_served_version, serving)]


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
        return count, await end_state(stage), sorted(workloads.calls)


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
        return await end_state(stage), sorted(workloads.calls)


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
    assert count > 5
    for number in range(1, count + 1):
        for after in (False, True):
            path = tmp_path / f"{number}-{after}"
            seen = await crashed(path, story, ended, Steps(number, after=after))
            assert seen == (state, calls), f"crash {'after' if after else 'before'} step {number}"
