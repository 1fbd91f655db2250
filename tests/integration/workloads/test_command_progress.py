"""Progress that a command writes, as its status shows it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.integration.workloads.support import left_running, open_workloads, until_task
from tests.integration.workloads.test_workers import workers

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.workloads import HostPath, Mount, Steps, Task

pytestmark = pytest.mark.anyio


def reporting(model: Path, script: str) -> Task:
    mount = Mount(HostPath(str(model), create=True), "/kubedl-model", read_only=False)
    return workers(
        script,
        1,
        mounts=(mount,),
        env={"M": "/kubedl-model"},
        progress_file="/kubedl-model/.modelwright/progress.json",
    )


def say(number: int) -> str:
    return f'mkdir -p $M/.modelwright; echo \'{{"completed": {number}, "total": 9}}\' > $M/.modelwright/progress.json'


async def test_progress_is_shown_while_it_runs_and_kept_to_the_end(
    workloads: EmbeddedWorkloads, tmp_path: Path
) -> None:
    model, go = tmp_path / "new" / "model", tmp_path / "go"
    os.mkfifo(go)
    changes = workloads.changes()
    await workloads.apply(reporting(model, f"{say(1)}; read line < {go}; {say(9)}"))
    await until_task(workloads, "tm", lambda status: status.steps == Steps(1, 9))
    assert (await anext(changes)).uid == "tm"
    await asyncio.to_thread(go.write_text, "\n")
    status = await until_task(workloads, "tm")
    assert (status.phase, status.steps) == ("Succeeded", Steps(9, 9))


async def test_progress_of_an_earlier_training_is_not_taken_for_this_one(
    workloads: EmbeddedWorkloads, tmp_path: Path
) -> None:
    (tmp_path / "model" / ".modelwright").mkdir(parents=True)
    (tmp_path / "model" / ".modelwright" / "progress.json").write_text('{"completed": 5}')
    await workloads.apply(reporting(tmp_path / "model", "sleep 0.3"))
    status = await until_task(workloads, "tm")
    assert (status.phase, status.steps) == ("Succeeded", None)


@pytest.mark.parametrize(
    "script",
    [
        "mkfifo $M/.modelwright/progress.json",
        "ln -s /etc/passwd $M/.modelwright/progress.json",
        "ln -s /dev/zero $M/.modelwright/progress.json",
        "head -c 50000000 /dev/zero > $M/.modelwright/progress.json",
        "mkdir $M/.modelwright/progress.json",
        "rmdir $M/.modelwright; ln -s /proc/self $M/.modelwright",
        "for i in $(seq 2000); do echo '{\"completed\": 1}' > $M/.modelwright/progress.json; done",
        "echo not-json > $M/.modelwright/progress.json",
    ],
)
async def test_a_hostile_progress_file_harms_nobody(workloads: EmbeddedWorkloads, tmp_path: Path, script: str) -> None:
    await workloads.apply(reporting(tmp_path / "model", f"mkdir $M/.modelwright; {script}; sleep 0.3"))
    status = await until_task(workloads, "tm")
    assert (status.phase, status.failure) == ("Succeeded", None)


async def test_progress_goes_on_after_an_adoption(data_dir: Path, tmp_path: Path) -> None:
    model, go = tmp_path / "model", tmp_path / "go"
    os.mkfifo(go)
    task = reporting(model, f"{say(1)}; read line < {go}; {say(2)}")
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        await until_task(workloads, "tm", lambda status: status.steps == Steps(1, 9))
    async with open_workloads(data_dir) as workloads:
        await until_task(workloads, "tm", lambda status: status.steps == Steps(1, 9))
        await asyncio.to_thread(go.write_text, "\n")
        assert (await until_task(workloads, "tm")).steps == Steps(2, 9)
    async with open_workloads(data_dir) as workloads:
        assert (await until_task(workloads, "tm")).steps == Steps(2, 9)
