"""What every adapter of `Workloads` promises. An adapter joins by a `Subject` in `subjects`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from tests.integration.workloads.support import DEADLINE, open_workloads, place_model

from modelwright.ports.errors import NotFound, Terminal
from modelwright.ports.workloads import (
    BuildImage,
    Command,
    Container,
    HostPath,
    ModelImage,
    ModelServer,
    Nfs,
    Owner,
    ServedVersion,
    Server,
    ServerStatus,
    Task,
    TaskStatus,
    Workloads,
    WorkloadStatus,
)

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace


class Subject:
    """One adapter, and what the suite needs to know of the place where it runs things."""

    def __init__(self, workloads: Workloads, model: Callable[[str], ModelImage]) -> None:
        self.workloads = workloads
        self.model = model

    def server(self, text: str, **fields: int) -> Server:
        """A server of one version, named as its model answers."""
        versions = (ServedVersion(text, 1, self.model(text)),)
        program = ModelServer(model_name="m", framework="onnx", versions=versions, default=text)
        return Server(name="server", owner=an_owner("server"), program=program, **fields)  # type: ignore[arg-type]


@pytest.fixture(params=["embedded"])
async def subject(tmp_path: Path) -> AsyncIterator[Subject]:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    async with open_workloads(data_dir) as workloads:
        yield Subject(workloads, lambda text: place_model(data_dir, text))


def an_owner(uid: str) -> Owner:
    return Owner(api_version="model.kubedl.io/v1alpha1", kind="ModelVersion", namespace="default", name="x", uid=uid)


def a_build(folder: Path, uid: str = "build") -> Task:
    action = BuildImage(source=HostPath(str(folder)), repository="hub/m", tags=("v1",))
    return Task(name="build", owner=an_owner(uid), action=action)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "weights").write_bytes(b"weights")
    return path


async def until(workloads: Workloads, uid: str, done: Callable[[WorkloadStatus], bool]) -> WorkloadStatus:
    end = time.monotonic() + DEADLINE
    while True:
        (status,) = await workloads.observe(uid)
        if done(status):
            return status
        assert time.monotonic() < end, f"waited {DEADLINE} s, now {status}"
        await asyncio.sleep(0.01)


def over(status: WorkloadStatus) -> bool:
    return isinstance(status, TaskStatus) and status.phase in {"Succeeded", "Failed"}


def up_to_date(status: WorkloadStatus) -> bool:
    return isinstance(status, ServerStatus) and status.up_to_date


async def test_an_owner_without_workloads_has_none(subject: Subject) -> None:
    assert await subject.workloads.observe("nobody") == ()
    assert await subject.workloads.owners() == frozenset()


async def test_a_build_comes_to_a_result_that_names_tag_and_digest(subject: Subject, folder: Path) -> None:
    await subject.workloads.apply(a_build(folder))
    status = await until(subject.workloads, "build", over)
    assert isinstance(status, TaskStatus)
    assert status.phase == "Succeeded"
    assert status.result
    assert status.result.tag == "v1"
    assert status.result.resolved.endswith(f"/hub/m@{status.result.digest}")
    assert await subject.workloads.owners() == {an_owner("build")}


async def test_applying_the_same_task_again_does_nothing(subject: Subject, folder: Path) -> None:
    await subject.workloads.apply(a_build(folder))
    before = await until(subject.workloads, "build", over)
    await subject.workloads.apply(a_build(folder))
    assert await subject.workloads.observe("build") == (before,)


async def test_a_removed_task_is_forgotten_and_may_run_again(subject: Subject, folder: Path) -> None:
    await subject.workloads.apply(a_build(folder))
    first = await until(subject.workloads, "build", over)
    await subject.workloads.remove("build", "build")
    assert await subject.workloads.observe("build") == ()
    assert await subject.workloads.owners() == frozenset()
    await subject.workloads.apply(a_build(folder))
    second = await until(subject.workloads, "build", over)
    assert isinstance(first, TaskStatus)
    assert isinstance(second, TaskStatus)
    assert first.result == second.result


async def test_removing_what_is_not_there_is_no_error(subject: Subject) -> None:
    await subject.workloads.remove("nobody", "nothing")


async def test_a_failed_build_says_why_and_whether_to_try_again(subject: Subject, tmp_path: Path) -> None:
    await subject.workloads.apply(a_build(tmp_path / "missing"))
    status = await until(subject.workloads, "build", over)
    assert isinstance(status, TaskStatus)
    assert status.phase == "Failed"
    assert status.failure
    assert status.failure.reason
    assert not status.failure.retryable


async def test_statuses_are_sorted_by_name(subject: Subject, folder: Path) -> None:
    for name in ("b", "c", "a"):
        await subject.workloads.apply(replace(a_build(folder), name=name))
    assert [status.name for status in await subject.workloads.observe("build")] == ["a", "b", "c"]


async def test_changes_name_each_owner_that_has_news(subject: Subject, folder: Path) -> None:
    changes = subject.workloads.changes()
    await subject.workloads.apply(a_build(folder, "one"))
    await subject.workloads.apply(a_build(folder, "two"))
    waiting = {"one", "two"}
    async with asyncio.timeout(DEADLINE):
        async for owner in changes:
            (status,) = await subject.workloads.observe(owner.uid)
            if over(status):
                waiting.discard(owner.uid)
            if not waiting:
                break


async def test_a_server_becomes_up_to_date_keeps_its_port_and_goes(subject: Subject) -> None:
    await subject.workloads.apply(subject.server("one"))
    status = await until(subject.workloads, "server", up_to_date)
    assert isinstance(status, ServerStatus)
    assert (status.serving_version, status.ready_replicas) == ("one", 1)
    assert status.port > 0
    await subject.workloads.apply(subject.server("two", replicas=2))
    (at_once,) = await subject.workloads.observe("server")
    assert not up_to_date(at_once)
    after = await until(subject.workloads, "server", up_to_date)
    assert isinstance(after, ServerStatus)
    assert (after.serving_version, after.ready_replicas, after.port) == ("two", 2, status.port)
    await subject.workloads.apply(subject.server("two", replicas=0))
    none = await until(subject.workloads, "server", up_to_date)
    assert isinstance(none, ServerStatus)
    assert (none.replicas, none.ready_replicas, none.serving_version) == (0, 0, "")
    await subject.workloads.remove("server", "server")
    assert await subject.workloads.observe("server") == ()


async def test_logs_of_nothing_are_not_found(subject: Subject) -> None:
    with pytest.raises(NotFound):
        async for _ in subject.workloads.logs("nobody", "nothing"):
            pass


async def test_what_the_capabilities_deny_is_refused(subject: Subject) -> None:
    capabilities = subject.workloads.capabilities
    refused: list[tuple[bool, Task | Server]] = [
        (capabilities.containers, Server(name="s", owner=an_owner("c"), program=Container(image="x"))),
        (capabilities.containers, Task(name="t", owner=an_owner("c"), action=Command(command=("x",), image="x"))),
        (
            "nfs" in capabilities.storage,
            Task(
                name="t",
                owner=an_owner("c"),
                action=BuildImage(source=Nfs("h", "/p"), repository="hub/m", tags=("v1",)),
            ),
        ),
    ]
    for allowed, workload in refused:
        if not allowed:
            with pytest.raises(Terminal):
                await subject.workloads.apply(workload)
    assert "hostPath" in capabilities.storage
    assert capabilities.default_registry
