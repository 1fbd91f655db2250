"""The real store and real processes, killed again and again on the way: in the end one image, one server, and quiet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.engine.crashing import Steps, store_of, workloads_of
from tests.integration.engine.stage import DEADLINE, Stage, opened, rounds, running
from tests.integration.workloads.support import REGISTRY, ask, of_data_dir, open_workloads, servers_of

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.api.inference_model import InferenceModel
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.oci.local import LocalRepository
from modelwright.oci.storage import ImageStorage

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def program(data: Path) -> AsyncIterator[tuple[Stage, EmbeddedWorkloads]]:
    """Store and workloads as one program has them; at its end servers are left alone, as when it is killed."""
    async with opened(data / "store") as store:
        workloads = open_workloads(data)
        await workloads.__aenter__()
        try:
            yield Stage(store, None), workloads  # type: ignore[arg-type]
        finally:
            await workloads.close(stop_servers=False)


async def done(stage: Stage) -> Any:
    await stage.until_ready(ModelVersion, "v1")
    await stage.until(Model, "digits", lambda model: model.status.latest_version)
    return await stage.until_ready(InferenceModel, "served")


async def life(data: Path) -> bool:
    """One life of the program, until its engine dies after four steps; whether all was done before that."""
    steps = Steps(4, after=True)
    async with program(data) as (stage, workloads):
        async with running(store_of(stage.store, steps), workloads_of(workloads, steps)):
            ends = [asyncio.create_task(done(stage)), asyncio.create_task(steps.crashed.wait())]
            await asyncio.wait(ends, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            await asyncio.wait(ends)
        return not steps.crashed.is_set()


async def test_a_program_that_dies_every_few_steps_gets_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    model = tmp_path / "model"
    model.mkdir()
    (model / "answer.txt").write_text("hello")
    try:
        async with program(data) as (stage, _):
            await stage.version("v1", path=str(model))
            await stage.serve("v1")
        lives = 0
        while not await life(data):
            lives += 1
            assert lives < 40
        async with program(data) as (stage, workloads):
            async with running(stage.store, workloads, resync=0.02) as engine:
                served = await done(stage)
                await rounds(engine, 30)
                revision = stage.revision
                await rounds(engine, 30)
                assert stage.revision == revision
            assert len(servers_of(data)) == 1
            port = int(served.status.url.split(":")[2].split("/")[0])
            assert (await asyncio.to_thread(ask, port))["text"] == "hello"
            assert len(served.status.history) == 1
            assert LocalRepository(ImageStorage(data / "images"), "hub/digits", host=REGISTRY).tags() == ["v1"]
            await workloads.close()
        assert lives > 2
    finally:
        for process in of_data_dir(data):
            process.kill()
