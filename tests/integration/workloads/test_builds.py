"""Builds in worker processes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.integration.workloads.support import (
    QUICK,
    REGISTRY,
    command,
    left_running,
    of_data_dir,
    open_workloads,
    until,
    until_task,
)

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.oci.local import LocalRepository
from modelwright.oci.push import push_folder
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import Terminal
from modelwright.ports.workloads import BuildImage, HostPath, Nfs, Owner, Task, TaskStatus

pytestmark = pytest.mark.anyio


def owner(name: str) -> Owner:
    return Owner(api_version="model.kubedl.io/v1alpha1", kind="ModelVersion", namespace="default", name=name, uid=name)


def a_build(source: Path, *tags: str, uid: str = "mv", deadline: int = 0) -> Task:
    action = BuildImage(source=HostPath(str(source)), repository="hub/resnet", tags=tags or ("v1",))
    return Task(name="build", owner=owner(uid), action=action, deadline_seconds=deadline)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(os.urandom(1024))
    return folder


def workers_of(data_dir: Path) -> list[psutil.Process]:
    return [process for process in of_data_dir(data_dir) if "modelwright.agent.worker" in command(process)]


async def test_a_folder_becomes_an_image_in_the_registry(
    workloads: EmbeddedWorkloads, data_dir: Path, model: Path
) -> None:
    await workloads.apply(a_build(model))
    status = await until_task(workloads, "mv")
    assert (status.phase, status.failure) == ("Succeeded", None)
    assert status.result
    assert (status.result.tag, status.result.size_bytes > 1024) == ("v1", True)
    assert status.result.resolved == f"{REGISTRY}/hub/resnet@{status.result.digest}"
    stored = ImageStorage(data_dir / "images").repository("hub/resnet")
    assert stored.read_manifest("v1").digest == status.result.digest


async def test_the_same_content_is_the_same_image_and_other_content_takes_the_next_tag(
    workloads: EmbeddedWorkloads, model: Path
) -> None:
    await workloads.apply(a_build(model, "v1", uid="a"))
    first = (await until_task(workloads, "a")).result
    await workloads.apply(a_build(model, "v1", "v1-longer", uid="b"))
    assert (await until_task(workloads, "b")).result == first
    (model / "weights.bin").write_bytes(b"other")
    await workloads.apply(a_build(model, "v1", "v1-longer", uid="c"))
    other = (await until_task(workloads, "c")).result
    assert other
    assert other.tag == "v1-longer"
    await workloads.apply(a_build(model, "v1", uid="d"))
    (model / "weights.bin").write_bytes(b"third")
    await workloads.apply(a_build(model, "v1", uid="e"))
    failed = await until_task(workloads, "e")
    assert failed.failure
    assert (failed.failure.reason, failed.failure.retryable) == ("ImageTagTaken", False)


async def test_a_failure_says_whether_trying_again_may_help(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    await workloads.apply(a_build(tmp_path / "nothing"))
    status = await until_task(workloads, "mv")
    assert (status.phase, status.failure and status.failure.retryable) == ("Failed", False)
    assert status.failure
    assert str(tmp_path / "nothing") in status.failure.message


@pytest.mark.parametrize("inside", [".", "run", ".."])
async def test_the_data_directory_is_never_packed(workloads: EmbeddedWorkloads, data_dir: Path, inside: str) -> None:
    await workloads.apply(a_build(data_dir / inside))
    failure = (await until_task(workloads, "mv")).failure
    assert failure
    assert (failure.reason, failure.retryable) == ("StorageForbidden", False)


async def test_storage_of_a_cluster_is_refused(workloads: EmbeddedWorkloads) -> None:
    action = BuildImage(source=Nfs("server", "/export"), repository="hub/resnet", tags=("v1",))
    with pytest.raises(Terminal) as refused:
        await workloads.apply(Task(name="build", owner=owner("mv"), action=action))
    assert refused.value.reason == "StorageNotSupported"


async def test_kaniko_needs_a_cluster(workloads: EmbeddedWorkloads, model: Path) -> None:
    action = BuildImage(source=HostPath(str(model)), repository="hub/resnet", tags=("v1",), builder="kaniko")
    with pytest.raises(Terminal) as refused:
        await workloads.apply(Task(name="build", owner=owner("mv"), action=action))
    assert refused.value.reason == "NeedsContainers"


async def test_a_model_is_put_on_top_of_a_base_image(
    workloads: EmbeddedWorkloads, data_dir: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "shell").write_text("#!")
    repository = LocalRepository(ImageStorage(data_dir / "images"), "base", host=REGISTRY)
    push_folder(tmp_path / "base", repository, ("v1",))
    action = BuildImage(
        source=HostPath(str(model)), repository="hub/resnet", tags=("v1",), base_image=f"{REGISTRY}/base:v1"
    )
    await workloads.apply(a_build(model, "v0", uid="without"))
    await workloads.apply(Task(name="build", owner=owner("with"), action=action))
    without, upon = (await until_task(workloads, "without")).result, (await until_task(workloads, "with")).result
    assert without
    assert upon
    assert upon.digest != without.digest


async def test_metrics_are_returned_and_hostile_ones_only_noted(workloads: EmbeddedWorkloads, model: Path) -> None:
    private = model / ".modelwright"
    private.mkdir()
    (private / "metrics.json").write_text(json.dumps({"loss": 0.25, "epochs": 3}))
    await workloads.apply(a_build(model, uid="a"))
    good = (await until_task(workloads, "a")).result
    assert good
    assert good.metrics == {"epochs": 3.0, "loss": 0.25}
    (private / "metrics.json").unlink()
    (private / "metrics.json").symlink_to("/etc/passwd")
    await workloads.apply(a_build(model, uid="b"))
    hostile = (await until_task(workloads, "b")).result
    assert hostile
    assert (hostile.metrics, hostile.digest) == ({}, good.digest)
    log = b"".join([chunk async for chunk in workloads.logs("b", "build")])
    assert b"was ignored" in log


async def test_a_build_whose_worker_is_killed_fails_retryably_and_the_next_works(
    workloads: EmbeddedWorkloads, data_dir: Path, model: Path
) -> None:
    fifo = model / "weights.bin"
    with fifo.open("wb") as file:
        file.truncate(3 << 30)
    await workloads.apply(a_build(model, uid="a"))
    await until_task(workloads, "a", lambda status: status.phase == "Running")
    (worker,) = [process for process in workers_of(data_dir) if process.status() != psutil.STATUS_ZOMBIE]
    worker.kill()
    status = await until_task(workloads, "a")
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("WorkerDied", True)
    fifo.write_bytes(b"small")
    await workloads.apply(a_build(model, uid="b"))
    assert (await until_task(workloads, "b")).phase == "Succeeded"


async def test_a_worker_that_takes_too_much_memory_is_ended(data_dir: Path, model: Path) -> None:
    with (model / "weights.bin").open("wb") as file:
        file.truncate(3 << 30)
    async with open_workloads(data_dir, msgspec.structs.replace(QUICK, worker_memory=1 << 20)) as workloads:
        await workloads.apply(a_build(model))
        failure = (await until_task(workloads, "mv")).failure
        assert failure
        assert failure.reason == "WorkerDied"
        assert "memory" in failure.message


async def test_a_removed_build_ends_with_its_worker(workloads: EmbeddedWorkloads, data_dir: Path, model: Path) -> None:
    with (model / "weights.bin").open("wb") as file:
        file.truncate(3 << 30)
    await workloads.apply(a_build(model))
    await until_task(workloads, "mv", lambda status: status.phase == "Running")
    (worker,) = workers_of(data_dir)
    await workloads.remove("mv", "build")
    assert not worker.is_running()
    assert await workloads.observe("mv") == ()
    assert not (data_dir / "run" / "mv").exists()
    with (model / "weights.bin").open("wb") as file:
        file.truncate(10)
    await workloads.apply(a_build(model))
    assert (await until_task(workloads, "mv")).phase == "Succeeded"


async def test_a_build_past_its_deadline_is_ended(workloads: EmbeddedWorkloads, model: Path) -> None:
    with (model / "weights.bin").open("wb") as file:
        file.truncate(20 << 30)
    await workloads.apply(a_build(model, deadline=1))
    failure = (await until_task(workloads, "mv")).failure
    assert failure
    assert failure.reason == "DeadlineExceeded"


async def test_progress_is_told(workloads: EmbeddedWorkloads, model: Path) -> None:
    with (model / "weights.bin").open("wb") as file:
        file.truncate(512 << 20)
    await workloads.apply(a_build(model))
    status = await until_task(workloads, "mv", lambda status: status.progress is not None)
    assert status.progress
    assert status.progress.bytes_total >= 512 << 20
    await workloads.remove("mv", "build")


async def test_many_builds_share_few_workers_and_all_but_one_end_when_idle(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    for number in range(30):
        folder = tmp_path / f"model-{number}"
        folder.mkdir()
        (folder / "weights.bin").write_bytes(os.urandom(1024))
        await workloads.apply(a_build(folder, f"v{number}", uid=f"mv-{number}"))
    results = [await until_task(workloads, f"mv-{number}") for number in range(30)]
    assert {status.phase for status in results} == {"Succeeded"}
    assert len({status.result.digest for status in results if status.result}) == 30
    assert len(workers_of(data_dir)) <= (os.cpu_count() or 1)
    await until(lambda: len(workers_of(data_dir)) == 1, "the other workers to end")


async def test_an_idle_worker_that_is_killed_is_replaced(
    workloads: EmbeddedWorkloads, data_dir: Path, model: Path
) -> None:
    (worker,) = workers_of(data_dir)
    worker.kill()
    await until(lambda: worker not in workers_of(data_dir), "the end of the worker")
    await workloads.apply(a_build(model))
    assert (await until_task(workloads, "mv")).phase == "Succeeded"


async def test_a_finished_build_is_known_after_a_restart_and_not_done_again(data_dir: Path, model: Path) -> None:
    task = a_build(model)
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        before = await until_task(workloads, "mv")
    async with open_workloads(data_dir) as workloads:
        assert await workloads.observe("mv") == (before,)
        await workloads.apply(task)
        assert await workloads.observe("mv") == (before,)


async def test_an_interrupted_build_is_done_by_the_next_program(data_dir: Path, model: Path) -> None:
    with (model / "weights.bin").open("wb") as file:
        file.truncate(1 << 30)
    async with left_running(data_dir) as workloads:
        await workloads.apply(a_build(model))
        await until_task(workloads, "mv", lambda status: status.phase == "Running")
    await until(lambda: workers_of(data_dir) == [], "the worker to end")
    (model / "weights.bin").write_bytes(b"small")
    async with open_workloads(data_dir) as workloads:
        assert await workloads.owners() == {owner("mv")}
        status = await until_task(workloads, "mv")
        assert status.phase == "Succeeded"


async def test_changes_tell_of_each_build(workloads: EmbeddedWorkloads, model: Path) -> None:
    changes = workloads.changes()
    for number in range(3):
        await workloads.apply(a_build(model, uid=f"mv-{number}"))
    seen: set[str] = set()
    async with asyncio.timeout(30):
        async for changed in changes:
            (status,) = await workloads.observe(changed.uid)
            assert isinstance(status, TaskStatus)
            if status.phase == "Succeeded":
                seen.add(changed.uid)
            if len(seen) == 3:
                break
