"""What every adapter of `Workloads` promises. An adapter joins by a `Subject` in `subjects`."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.contract.cluster_parts import kubernetes_builds, running_controllers
from tests.contract.kube_apiserver import KubeApiserver
from tests.integration.workloads.support import DEADLINE, open_workloads, place_model

from modelwright.ports.errors import NotFound, Terminal
from modelwright.ports.workloads import (
    BuildImage,
    Command,
    Container,
    Download,
    Gateway,
    HostPath,
    Kept,
    ModelImage,
    ModelServer,
    Mount,
    Nfs,
    Owner,
    Placement,
    ServedVersion,
    Server,
    ServerStatus,
    Steps,
    Task,
    TaskStatus,
    WorkerCounts,
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


class Builds:
    """One adapter that runs builds, who they are for, and what they need there: a node, the login of a registry."""

    def __init__(
        self, workloads: Workloads, own: Callable[[str], Awaitable[Owner]], registry: str = "", node: str = ""
    ) -> None:
        self.workloads = workloads
        self.own = own
        self._registry = registry
        self._node = node

    async def task(self, folder: Path, owner: str = "build") -> Task:
        """A build of this folder; the owner of that name is always the same."""
        action = BuildImage(
            source=HostPath(str(folder), self._node),
            repository=f"{self._registry}/hub/m" if self._registry else "hub/m",
            tags=("v1",),
            push_secret="login" if self._registry else "",
        )
        return Task(name=owner, owner=await self.own(owner), action=action, placement=Placement(node_name=self._node))


@pytest.fixture(scope="module")
def controlled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiserver]:
    """The kube-apiserver of the session, with controllers."""
    server: KubeApiserver = request.getfixturevalue("kube_apiserver")
    with running_controllers(server.kubectl.parent, tmp_path_factory.mktemp("controllers"), server):
        yield server


@pytest.fixture(params=["embedded", pytest.param("kubernetes", marks=pytest.mark.apiserver)])
async def builds(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Builds]:
    async with _builds(request, tmp_path) as builds:
        yield builds


@asynccontextmanager
async def _builds(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[Builds]:
    if request.param == "kubernetes":
        async with kubernetes_builds(request.getfixturevalue("controlled"), folder) as parts:
            yield Builds(*parts)
    else:
        data_dir = folder / "data"
        data_dir.mkdir(mode=0o700)
        async with open_workloads(data_dir) as embedded:
            yield Builds(embedded, owned_by_nobody)


async def owned_by_nobody(name: str) -> Owner:
    return an_owner(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "weights").write_bytes(b"weights")
    return path


async def until(workloads: Workloads, uid: str, done: Callable[[WorkloadStatus], bool]) -> WorkloadStatus:
    end = time.monotonic() + DEADLINE
    while True:
        seen = await workloads.observe(uid)
        if seen and done(seen[0]):
            return seen[0]
        assert time.monotonic() < end, f"waited {DEADLINE} s, now {seen}"
        await asyncio.sleep(0.01)


def over(status: WorkloadStatus) -> bool:
    return isinstance(status, TaskStatus) and status.phase in {"Succeeded", "Failed"}


def up_to_date(status: WorkloadStatus) -> bool:
    return isinstance(status, ServerStatus) and status.up_to_date


async def test_an_owner_without_workloads_has_none(builds: Builds) -> None:
    assert await builds.workloads.observe("nobody") == ()
    assert not {owner for owner in await builds.workloads.owners() if owner.uid == "nobody"}


async def test_a_build_comes_to_a_result_that_names_tag_and_digest(builds: Builds, folder: Path) -> None:
    task = await builds.task(folder)
    await builds.workloads.apply(task)
    status = await until(builds.workloads, task.owner.uid, over)
    assert isinstance(status, TaskStatus)
    assert (status.phase, status.failure) == ("Succeeded", None)
    assert status.result
    assert status.result.tag == "v1"
    assert status.result.resolved.endswith(f"/hub/m@{status.result.digest}")
    assert task.owner in await builds.workloads.owners()


async def test_applying_the_same_task_again_does_nothing(builds: Builds, folder: Path) -> None:
    task = await builds.task(folder)
    await builds.workloads.apply(task)
    before = await until(builds.workloads, task.owner.uid, over)
    await builds.workloads.apply(task)
    assert await builds.workloads.observe(task.owner.uid) == (before,)


async def test_a_removed_task_is_forgotten_and_may_run_again(builds: Builds, folder: Path) -> None:
    task = await builds.task(folder)
    await builds.workloads.apply(task)
    first = await until(builds.workloads, task.owner.uid, over)
    await builds.workloads.remove(task.owner.uid, "build")
    assert await builds.workloads.observe(task.owner.uid) == ()
    assert task.owner not in await builds.workloads.owners()
    await builds.workloads.apply(task)
    second = await until(builds.workloads, task.owner.uid, over)
    assert isinstance(first, TaskStatus)
    assert isinstance(second, TaskStatus)
    assert first.result == second.result


async def test_removing_what_is_not_there_is_no_error(builds: Builds) -> None:
    await builds.workloads.remove("nobody", "nothing")


async def test_a_failed_build_says_why_and_whether_to_try_again(builds: Builds, tmp_path: Path) -> None:
    task = await builds.task(tmp_path / "missing")
    await builds.workloads.apply(task)
    status = await until(builds.workloads, task.owner.uid, over)
    assert isinstance(status, TaskStatus)
    assert status.phase == "Failed"
    assert status.failure
    assert status.failure.reason
    assert not status.failure.retryable


async def test_statuses_are_sorted_by_name(builds: Builds, folder: Path) -> None:
    task = await builds.task(folder)
    for name in ("b", "c", "a"):
        await builds.workloads.apply(replace(task, name=name))
    assert [status.name for status in await builds.workloads.observe(task.owner.uid)] == ["a", "b", "c"]


async def test_changes_name_each_owner_that_has_news(builds: Builds, folder: Path) -> None:
    changes = builds.workloads.changes()
    tasks = [await builds.task(folder, "one"), await builds.task(folder, "two")]
    for task in tasks:
        await builds.workloads.apply(task)
    waiting = {task.owner.uid for task in tasks}
    async with asyncio.timeout(DEADLINE):
        async for owner in changes:
            if owner.uid in waiting:
                (status,) = await builds.workloads.observe(owner.uid)
                if over(status):
                    waiting.discard(owner.uid)
            if not waiting:
                break


async def test_logs_of_nothing_are_not_found(builds: Builds) -> None:
    with pytest.raises(NotFound):
        async for _ in builds.workloads.logs("nobody", "nothing"):
            pass


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


def a_command(script: str, **fields: Any) -> Task:
    values: dict[str, Any] = {"command": ("/bin/sh", "-c", script)} | fields
    return Task(name="train", owner=an_owner("train"), action=Command(**values))


async def printed(workloads: Workloads) -> list[str]:
    return b"".join([chunk async for chunk in workloads.logs("train", "train")]).decode().splitlines()


async def test_a_command_succeeds_with_what_it_has_printed(subject: Subject) -> None:
    await subject.workloads.apply(a_command("echo done"))
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert (status.phase, status.exit_code, status.workers) == ("Succeeded", 0, WorkerCounts(succeeded=1))
    assert status.started_at
    assert status.finished_at
    assert status.node_name
    assert await printed(subject.workloads) == ["done"]


async def test_each_worker_of_a_command_is_told_its_place(subject: Subject) -> None:
    script = 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT, $NAME, $(RANK)"'
    await subject.workloads.apply(a_command(script, workers=3, env={"NAME": "worker $(RANK)"}))
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert (status.phase, status.workers) == ("Succeeded", WorkerCounts(succeeded=3))
    lines = await printed(subject.workloads)
    masters = {line.partition(" at ")[2].partition(",")[0] for line in lines}
    assert len(masters) == 1
    for rank in range(3):
        assert any(f"{rank} of 3 at" in line and line.endswith(f"worker {rank}, {rank}") for line in lines)


async def test_the_first_worker_that_fails_ends_the_command_and_is_named(subject: Subject) -> None:
    await subject.workloads.apply(a_command("[ $RANK = 0 ] && exec sleep 600; echo no luck; exit 3", workers=2))
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert (status.phase, status.exit_code, status.workers) == ("Failed", 3, WorkerCounts(failed=2))
    assert status.failure
    assert status.failure.retryable
    assert "worker-1" in status.failure.message


async def test_a_command_that_cannot_be_started_is_not_to_be_tried_again(subject: Subject) -> None:
    await subject.workloads.apply(a_command("", command=("/no/such/program",)))
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("CommandNotStarted", False)


async def test_what_a_command_is_given_is_where_its_variables_say_and_known_by_digest(
    subject: Subject, tmp_path: Path
) -> None:
    (tmp_path / "train.csv").write_text("1,2")
    task = a_command(
        "cat $DATASETS/digits/train.csv; cat $BASE/answer.txt; echo w > $MODEL/weights; ls $DATASETS",
        env={"MODEL": "/kubedl-model", "BASE": "/kubedl-base-model", "DATASETS": "/datasets"},
        mounts=(
            Mount(HostPath(str(tmp_path / "new" / "model"), create=True), "/kubedl-model", read_only=False),
            Mount(subject.model("base"), "/kubedl-base-model"),
            Mount(Download(f"file://{tmp_path}/train.csv"), "/datasets/digits"),
        ),
    )
    await subject.workloads.apply(task)
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert (status.phase, status.failure) == ("Succeeded", None)
    assert await printed(subject.workloads) == ["1,2basedigits"]
    assert (tmp_path / "new" / "model" / "weights").read_text() == "w\n"
    digest = hashlib.sha256(b"1,2").hexdigest()
    assert status.downloads == {"/datasets/digits": f"sha256:{digest}"}


async def test_data_that_is_not_what_was_promised_fails_the_command_for_good(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("1,2")
    mount = Mount(Download(f"file://{tmp_path}/train.csv", "0" * 64), "/datasets/digits")
    await subject.workloads.apply(a_command(f"touch {tmp_path}/ran", mounts=(mount,)))
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("ChecksumMismatch", False)
    assert not (tmp_path / "ran").exists()


async def test_what_a_command_says_of_its_progress_is_seen(subject: Subject, tmp_path: Path) -> None:
    say = 'mkdir $M/.modelwright; echo \'{"completed": 3, "total": 9, "message": "epoch 3"}\' > $M/.modelwright/p.json'
    mount = Mount(HostPath(str(tmp_path / "model"), create=True), "/kubedl-model", read_only=False)
    task = a_command(
        say, env={"M": "/kubedl-model"}, mounts=(mount,), progress_file="/kubedl-model/.modelwright/p.json"
    )
    await subject.workloads.apply(task)
    status = await until(subject.workloads, "train", over)
    assert isinstance(status, TaskStatus)
    assert status.steps == Steps(3, 9, "epoch 3")


async def test_a_gateway_takes_up_a_change_and_serves_no_version_of_its_own(subject: Subject) -> None:
    def joining(policy: str) -> Server:
        program = Gateway(name="jis", policy=policy, kept=Kept("default/jis"), keep_max_bytes=1 << 20)
        return Server(name="gateway", owner=an_owner("gateway"), program=program)

    await subject.workloads.apply(joining("confidence"))
    before = await until(subject.workloads, "gateway", up_to_date)
    await subject.workloads.apply(joining("margin"))
    (at_once,) = await subject.workloads.observe("gateway")
    assert not up_to_date(at_once)
    after = await until(subject.workloads, "gateway", up_to_date)
    assert isinstance(before, ServerStatus)
    assert isinstance(after, ServerStatus)
    assert (after.port, after.ready_replicas, after.serving_version, after.restarts) == (before.port, 1, "", 0)
    assert after.kept_path.endswith("default/jis")
    await subject.workloads.remove("gateway", "gateway")


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
