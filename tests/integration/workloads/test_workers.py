"""Several workers of a command: told of each other, counted, ended together, and adopted together."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.integration.workloads.support import command, left_running, of_data_dir, open_workloads, until_task
from tests.integration.workloads.test_commands import OWNER, output

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Command, Resources, Task, TaskStatus, WorkerCounts

pytestmark = pytest.mark.anyio
TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "TF_CONFIG", "WHO")


def workers(script: str, count: int = 2, limit: str = "", **fields: Any) -> Task:
    values: dict[str, Any] = {"command": ("/bin/sh", "-c", script), "workers": count} | fields
    resources = Resources(limits={"memory": limit} if limit else {})
    return Task(name="train", owner=OWNER, action=Command(**values), resources=resources)


def workers_of(data_dir: Path) -> list[psutil.Process]:
    """The processes of the workers themselves."""
    found = []
    for process in of_data_dir(data_dir):
        words = command(process)
        if words and not any(word.startswith("modelwright.") for word in words):
            found.append(process)
    return found


def runner_of(data_dir: Path) -> psutil.Process:
    (runner,) = [process for process in of_data_dir(data_dir) if "modelwright.agent.run" in command(process)]
    return runner


async def until_active(workloads: EmbeddedWorkloads, count: int) -> TaskStatus:
    return await until_task(workloads, "tm", lambda status: bool(status.workers and status.workers.active == count))


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", ""])
async def test_each_worker_is_told_its_place(workloads: EmbeddedWorkloads, tmp_path: Path, framework: str) -> None:
    script = f"import json, os; json.dump(dict(os.environ), open('{tmp_path}/$(RANK).json', 'w'))"
    task = workers(
        "",
        3,
        command=(sys.executable, "-c"),
        args=(script,),
        framework=framework,
        env={"WHO": "$(RANK) of $(WORLD_SIZE)"},
    )
    await workloads.apply(task)
    status = await until_task(workloads, "tm")
    assert (status.phase, status.failure, status.workers) == ("Succeeded", None, WorkerCounts(succeeded=3))
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert [each["RANK"] for each in told] == ["0", "1", "2"]
    assert [each["WHO"] for each in told] == ["0 of 3", "1 of 3", "2 of 3"]
    assert {each["MASTER_ADDR"] for each in told} == {"127.0.0.1"}
    (port,) = {each["MASTER_PORT"] for each in told}
    if framework == "tensorflow":
        configs = [json.loads(each["TF_CONFIG"]) for each in told]
        assert [config["task"] for config in configs] == [{"type": "worker", "index": rank} for rank in range(3)]
        addresses = configs[0]["cluster"]["worker"]
        assert (len(set(addresses)), addresses[0]) == (3, f"127.0.0.1:{port}")
    else:
        assert [each["LOCAL_RANK"] for each in told] == ["0", "1", "2"]
        assert "TF_CONFIG" not in told[0]


async def test_the_chief_may_listen_where_the_others_find_it(workloads: EmbeddedWorkloads) -> None:
    chief = (
        "import os, socket\n"
        "rank, address = int(os.environ['RANK']), (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
        "if rank == 0:\n"
        "    with socket.create_server(address) as server:\n"
        "        for _ in range(2): print(server.accept()[0].recv(99).decode())\n"
        "else:\n"
        "    while True:\n"
        "        try: peer = socket.create_connection(address, 5); break\n"
        "        except ConnectionRefusedError: pass\n"
        "    peer.sendall(b'worker %d is here' % rank)\n"
    )
    await workloads.apply(workers("", 3, command=(sys.executable, "-S", "-c", chief)))
    assert (await until_task(workloads, "tm")).phase == "Succeeded"
    assert sorted((await output(workloads)).splitlines()) == [
        "worker-0: worker 1 is here",
        "worker-0: worker 2 is here",
    ]


async def test_a_single_worker_is_told_its_place_too_and_prints_as_it_is(workloads: EmbeddedWorkloads) -> None:
    await workloads.apply(workers("echo $RANK $WORLD_SIZE $(RANK)", 1))
    status = await until_task(workloads, "tm")
    assert (status.workers, await output(workloads)) == (WorkerCounts(succeeded=1), "0 1 0\n")


async def test_workers_are_counted_while_they_run(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    await workloads.apply(workers(f"[ $RANK = 1 ] || read line < {go}"))
    status = await until_task(workloads, "tm", lambda status: status.workers == WorkerCounts(active=1, succeeded=1))
    assert status.phase == "Running"
    assert status.started_at
    assert status.node_name
    await asyncio.to_thread(go.write_text, "\n")
    ended = await until_task(workloads, "tm")
    assert (ended.workers, ended.started_at) == (WorkerCounts(succeeded=2), status.started_at)


async def test_a_worker_that_dies_ends_the_others_and_is_named(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    saving = f"trap 'echo saved > {tmp_path}/saved; exit 0' TERM; touch {tmp_path}/ready; while :; do sleep 0.02; done"
    dying = f"while ! [ -e {tmp_path}/ready ]; do sleep 0.02; done; echo out of luck; kill -s SEGV $$$$"
    await workloads.apply(workers(f"if [ $RANK = 0 ]; then {saving}; else {dying}; fi"))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.phase, status.exit_code, status.workers) == (
        "Failed",
        -signal.SIGSEGV,
        WorkerCounts(succeeded=1, failed=1),
    )
    assert (status.failure.reason, status.failure.retryable) == ("CommandFailed", True)
    assert "worker-1 was ended by signal SIGSEGV" in status.failure.message
    assert "out of luck" in status.failure.message
    assert (tmp_path / "saved").exists()
    assert workers_of(data_dir) == []


async def test_a_worker_that_will_not_end_is_killed_with_all_that_it_has_started(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    stubborn = f"trap '' TERM; setsid sleep 601 & sleep 602 & touch {tmp_path}/ready; while :; do sleep 0.02; done"
    failing = f"while ! [ -e {tmp_path}/ready ]; do sleep 0.02; done; exit 3"
    await workloads.apply(workers(f"if [ $RANK = 0 ]; then {stubborn}; else {failing}; fi"))
    status = await until_task(workloads, "tm")
    assert (status.exit_code, status.workers) == (3, WorkerCounts(failed=2))
    assert workers_of(data_dir) == []


async def test_a_worker_over_its_limit_is_named_and_the_others_may_save(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    saving = f"trap 'echo saved > {tmp_path}/saved; exit 0' TERM; touch {tmp_path}/ready; while :; do sleep 0.02; done"
    eating = (
        f"while ! [ -e {tmp_path}/ready ]; do sleep 0.02; done; "
        f"exec {sys.executable} -S -c 'import time; held = bytearray(300 << 20); time.sleep(600)'"
    )
    await workloads.apply(workers(f"if [ $RANK = 0 ]; then {saving}; else {eating}; fi", limit="128Mi"))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.exit_code) == ("OOMKilled", -signal.SIGKILL)
    assert status.failure.message.startswith("worker-1 used ")
    assert "128 MiB" in status.failure.message
    assert (tmp_path / "saved").exists()
    assert workers_of(data_dir) == []


async def test_the_limit_is_each_workers_own(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"held = bytearray(90 << 20); import os, time\nwhile not os.path.exists('{go}'): time.sleep(0.01)"
    await workloads.apply(workers("", 3, command=(sys.executable, "-S", "-c", script), limit="200Mi"))
    await until_active(workloads, 3)
    await asyncio.sleep(0.5)  # all three together are over it for several looks
    go.touch()
    assert (await until_task(workloads, "tm")).phase == "Succeeded"


async def test_what_a_worker_leaves_behind_counts_as_its_own(workloads: EmbeddedWorkloads) -> None:
    child = f"{sys.executable} -S -c 'import time; held = bytearray(300 << 20); time.sleep(600)'"
    await workloads.apply(workers(f"setsid {child} & wait", 1, limit="128Mi"))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert status.failure.reason == "OOMKilled"


async def test_a_command_that_is_not_found_says_which(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(workers("", command=("no-such-program-here", "--epochs")))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.failure.retryable, status.exit_code) == ("CommandNotStarted", False, 127)
    assert "no-such-program-here" in status.failure.message
    assert status.workers == WorkerCounts(failed=2)
    assert workers_of(data_dir) == []


@pytest.mark.parametrize(
    "fields", [{"count": 0}, {"count": 257}, {"command": ()}, {"progress_file": "/kubedl-model/../../etc/passwd"}]
)
async def test_workers_that_make_no_sense_are_refused(workloads: EmbeddedWorkloads, fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await workloads.apply(workers("true", **fields))


# Without us ---------------------------------------------------------------------------------------------------------


async def test_workers_go_on_without_the_program_and_are_adopted(data_dir: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo x >> {tmp_path}/count; while ! [ -e {go} ]; do sleep 0.02; done; [ $RANK = 0 ]"
    async with left_running(data_dir) as workloads:
        await workloads.apply(workers(script))
        await until_active(workloads, 2)
    before = {process.pid for process in workers_of(data_dir)}
    async with left_running(data_dir) as workloads:
        await workloads.apply(workers(script))
        status = await until_active(workloads, 2)
        assert status.started_at
        go.touch()
        ended = await until_task(workloads, "tm")
        assert ended.failure
        assert (ended.exit_code, ended.started_at) == (1, status.started_at)
        assert "worker-1 exited with code 1" in ended.failure.message
    assert len(before) >= 2
    assert (tmp_path / "count").read_text() == "x\nx\n"


async def test_the_limit_holds_for_adopted_workers(data_dir: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        f"import os, time\nwhile not os.path.exists('{go}'): time.sleep(0.01)\n"
        "held = bytearray((300 << 20) * int(os.environ['RANK'])); time.sleep(600)"
    )
    task = workers("", command=(sys.executable, "-S", "-c", script), limit="128Mi")
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        await until_active(workloads, 2)
    async with open_workloads(data_dir) as workloads:
        await until_active(workloads, 2)
        go.touch()
        status = await until_task(workloads, "tm")
        assert status.failure
        assert (status.failure.reason, status.failure.message[:9]) == ("OOMKilled", "worker-1 ")


async def test_a_killed_runner_leaves_no_worker_behind(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(workers("trap '' TERM; setsid sleep 601 & sleep 600"))
    await until_active(workloads, 2)
    runner_of(data_dir).kill()
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("Interrupted", True)
    assert status.workers == WorkerCounts(failed=2)
    assert status.finished_at
    assert workers_of(data_dir) == []


async def test_a_runner_that_fails_by_itself_is_a_failure_that_counts(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were it taken for an interruption, it would be started again for ever."""
    (tmp_path / "argparse.py").write_text("raise ImportError('not the argparse that was expected')")
    async with open_workloads(data_dir) as workloads:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        await workloads.apply(workers(f"touch {tmp_path}/ran"))
        status = await until_task(workloads, "tm")
        assert status.failure
        assert (status.failure.reason, status.failure.retryable) == ("SupervisionFailed", True)
        assert "not the argparse that was expected" in status.failure.message
    assert not (tmp_path / "ran").exists()


async def test_a_runner_that_was_killed_unseen_leaves_no_worker_behind(data_dir: Path, tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/count; trap '' TERM; setsid sleep 601 & sleep 600"
    async with left_running(data_dir) as workloads:
        await workloads.apply(workers(script))
        await until_active(workloads, 2)
    runner_of(data_dir).kill()
    assert len(workers_of(data_dir)) >= 2
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(workers(script))
        status = await until_task(workloads, "tm")
        assert status.failure
        assert status.failure.reason == "Interrupted"
        assert workers_of(data_dir) == []
    assert (tmp_path / "count").read_text() == "x\nx\n"


async def test_after_a_restart_of_the_machine_a_command_was_interrupted(data_dir: Path, tmp_path: Path) -> None:
    """The record speaks of processes of another boot, whose numbers belong to others by now."""
    script = f"echo x >> {tmp_path}/count; sleep 600"
    async with left_running(data_dir) as workloads:
        await workloads.apply(workers(script))
        await until_active(workloads, 2)
    for process in of_data_dir(data_dir):
        process.kill()
    path = data_dir / "run" / "tm" / "train" / "record.json"
    record = json.loads(path.read_text())
    with open_bystander() as bystander:
        record["process"] = {"pid": bystander.pid, "started": record["process"]["started"], "boot": "another"}
        path.write_text(json.dumps(record))
        async with open_workloads(data_dir) as workloads:
            status = await until_task(workloads, "tm")
            assert status.failure
            assert (status.failure.reason, status.workers) == ("Interrupted", WorkerCounts(failed=2))
        assert bystander.poll() is None
        bystander.kill()
    assert (tmp_path / "count").read_text() == "x\nx\n"


def open_bystander() -> Any:
    import subprocess

    return subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)


async def test_a_runner_that_was_not_written_down_is_found_and_not_started_twice(
    data_dir: Path, tmp_path: Path
) -> None:
    """Killed in the instant after the start: only the nonce tells, and a worker has gone into a session of its own."""
    script = f"echo x >> {tmp_path}/count; setsid sleep 601 & sleep 600"
    async with left_running(data_dir) as workloads:
        await workloads.apply(workers(script))
        await until_active(workloads, 2)
    runner = runner_of(data_dir)
    path = data_dir / "run" / "tm" / "train" / "record.json"
    record = msgspec.json.decode(path.read_bytes())
    record["process"] = None
    path.write_bytes(msgspec.json.encode(record))
    async with open_workloads(data_dir) as workloads:
        await until_active(workloads, 2)
        assert runner_of(data_dir) == runner
        await workloads.remove("tm", "train")
        assert workers_of(data_dir) == []
    assert (tmp_path / "count").read_text() == "x\nx\n"
