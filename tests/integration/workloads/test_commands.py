"""Commands that run to their end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.workloads.support import (
    command,
    left_running,
    of_data_dir,
    open_workloads,
    place_model,
    serving_folder,
    until,
    until_task,
)

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.errors import Invalid, Terminal
from modelwright.ports.workloads import (
    Claim,
    Command,
    Download,
    HostPath,
    Mount,
    Owner,
    Resources,
    Scratch,
    Task,
    TaskStatus,
)

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace
OWNER = Owner(api_version="sedna.io/v1alpha1", kind="TrainingModel", namespace="default", name="t", uid="tm")


def shell(script: str, name: str = "train", deadline: int = 0, limit: str = "", **fields: object) -> Task:
    values: dict[str, object] = {"command": ("/bin/sh", "-c"), "args": (script,)} | fields
    command = msgspec.convert(values, Command, strict=False, from_attributes=True)
    resources = Resources(limits={"memory": limit} if limit else {})
    return Task(name=name, owner=OWNER, action=command, deadline_seconds=deadline, resources=resources)


async def output(workloads: EmbeddedWorkloads, name: str = "train") -> str:
    return b"".join([chunk async for chunk in workloads.logs("tm", name)]).decode()


async def test_a_command_succeeds_with_its_output_kept(workloads: EmbeddedWorkloads) -> None:
    await workloads.apply(shell("echo out; echo err >&2"))
    status = await until_task(workloads, "tm")
    assert (status.phase, status.exit_code) == ("Succeeded", 0)
    assert status.started_at
    assert status.finished_at
    assert status.started_at <= status.finished_at
    assert (await output(workloads)).split() == ["out", "err"]


async def test_a_failed_command_says_its_code_and_last_lines(workloads: EmbeddedWorkloads) -> None:
    await workloads.apply(shell("echo no data; exit 7"))
    status = await until_task(workloads, "tm")
    assert (status.phase, status.exit_code) == ("Failed", 7)
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("CommandFailed", True)
    assert "no data" in status.failure.message


async def test_a_command_that_does_not_exist_says_so(workloads: EmbeddedWorkloads) -> None:
    await workloads.apply(shell("", command=("/nothing/here",), args=()))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.exit_code) == ("CommandNotStarted", 127)
    assert "/nothing/here" in status.failure.message


async def test_who_misses_a_module_is_told_which_python_ran(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.executable)
    task = shell("", command=("python", "-c", "import no_such_module"), args=(), env={"PATH": str(tmp_path)})
    await workloads.apply(task)
    status = await until_task(workloads, "tm")
    assert status.failure
    assert f"python is {tmp_path}/python here" in status.failure.message


async def test_who_has_named_a_python_by_its_path_is_not_told_which(workloads: EmbeddedWorkloads) -> None:
    await workloads.apply(shell("", command=(sys.executable, "-c", "import no_such_module"), args=()))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert "No module named 'no_such_module'" in status.failure.message.splitlines()[-1]


async def test_mounts_are_real_folders_that_the_environment_names(
    workloads: EmbeddedWorkloads, data_dir: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    script = (
        "echo trained > $KUBEDL_MODEL_PATH/weights; cat $MODELWRIGHT_DATASETS/digits/answer.txt; echo; "
        "touch $SCRATCH/x; echo '$(GREETING)' '$(UNKNOWN)' '$$(GREETING)'"
    )
    task = shell(
        script,
        env={
            "KUBEDL_MODEL_PATH": "/kubedl-model",
            "MODELWRIGHT_DATASETS": "/datasets",
            "SCRATCH": "/scratch",
            "NAME": "you",
            "GREETING": "hello $(NAME)",
        },
        mounts=(
            Mount(HostPath(str(model)), "/kubedl-model", read_only=False),
            Mount(place_model(data_dir, "images of digits"), "/datasets/digits"),
            Mount(Scratch(), "/scratch"),
        ),
    )
    await workloads.apply(task)
    status = await until_task(workloads, "tm")
    assert (status.phase, status.failure) == ("Succeeded", None)
    assert (await output(workloads)).splitlines() == ["images of digits", "hello you $(UNKNOWN) $(GREETING)"]
    assert (model / "weights").read_text() == "trained\n"


async def test_a_command_past_its_deadline_is_ended_with_its_children(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(shell("trap '' TERM; sleep 600 & sleep 600; sleep 600", deadline=1))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("DeadlineExceeded", False)
    await until(lambda: not commands_of(data_dir), "the end of all children")


def commands_of(data_dir: Path) -> list[str]:
    found = [" ".join(command(process)) for process in of_data_dir(data_dir)]
    return [line for line in found if line and "modelwright.agent.worker" not in line]


async def test_what_a_command_leaves_in_the_background_ends_with_it(
    workloads: EmbeddedWorkloads, data_dir: Path
) -> None:
    await workloads.apply(shell("sleep 600 & setsid sleep 601 & exit 0"))
    assert (await until_task(workloads, "tm")).phase == "Succeeded"
    await until(lambda: not commands_of(data_dir), "the end of what was left")


async def test_a_command_over_its_memory_limit_is_ended(workloads: EmbeddedWorkloads) -> None:
    script = "import time; held = bytearray(300 << 20); time.sleep(600)"
    await workloads.apply(shell("", command=(sys.executable, "-c", script), args=(), limit="128Mi"))
    status = await until_task(workloads, "tm")
    assert status.failure
    assert status.failure.reason == "OOMKilled"
    assert "128 MiB" in status.failure.message


async def test_a_removed_command_ends_and_leaves_nothing(workloads: EmbeddedWorkloads, data_dir: Path) -> None:
    await workloads.apply(shell("sleep 600"))
    await until_task(workloads, "tm", lambda status: status.phase == "Running")
    await workloads.remove("tm", "train")
    assert commands_of(data_dir) == []
    assert await workloads.observe("tm") == ()
    assert not (data_dir / "run" / "tm").exists()


async def test_a_name_that_has_run_is_not_run_again(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    task = shell(f"echo x >> {tmp_path}/count")
    await workloads.apply(task)
    before = await until_task(workloads, "tm")
    await workloads.apply(task)
    await workloads.apply(shell("exit 1"))
    assert await workloads.observe("tm") == (before,)
    assert (tmp_path / "count").read_text() == "x\n"


async def test_a_command_goes_on_without_the_program_and_is_adopted(data_dir: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    task = shell(f"echo x >> {tmp_path}/count; read line < {go}; echo $line; exit 5")
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
        await until((tmp_path / "count").exists, "the command")
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
        await asyncio.to_thread(go.write_text, "gone on\n")
        status = await until_task(workloads, "tm")
        assert (status.phase, status.exit_code) == ("Failed", 5)
        assert "gone on" in await output(workloads)
    assert (tmp_path / "count").read_text() == "x\n"


async def test_a_command_that_ended_unseen_is_not_lost_and_not_run_again(data_dir: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    task = shell(f"echo x >> {tmp_path}/count; read line < {go}; exit 3")
    async with left_running(data_dir) as workloads:
        await workloads.apply(task)
        await until((tmp_path / "count").exists, "the command")
    await asyncio.to_thread(go.write_text, "\n")
    await until(lambda: commands_of(data_dir) == [], "the end of the command")
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(task)
        status = await until_task(workloads, "tm")
        assert (status.phase, status.exit_code) == ("Failed", 3)
    assert (tmp_path / "count").read_text() == "x\n"


async def test_a_command_whose_runner_was_killed_ends_as_interrupted(data_dir: Path, tmp_path: Path) -> None:
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(shell(f"echo x >> {tmp_path}/count; sleep 600"))
        await until((tmp_path / "count").exists, "the command")
        (runner,) = [process for process in of_data_dir(data_dir) if "modelwright.agent.run" in command(process)]
        runner.kill()
        status = await until_task(workloads, "tm")
        assert status.failure
        assert (status.failure.reason, status.failure.retryable) == ("Interrupted", True)
        assert commands_of(data_dir) == []


async def test_the_end_of_the_program_ends_its_commands(data_dir: Path) -> None:
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(shell("trap 'exit 0' TERM; while :; do sleep 0.05; done"))
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
    assert of_data_dir(data_dir) == []
    async with open_workloads(data_dir) as workloads:
        status = await until_task(workloads, "tm")
        assert status.failure
        assert status.failure.reason == "Interrupted"


async def test_a_command_that_waits_for_its_data_begins_after_a_restart(data_dir: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        data = Download(f"http://127.0.0.1:{port}/data.csv")
        task = shell("cat $DATA/data.csv", env={"DATA": "/data"}, mounts=(Mount(data, "/data"),))
        async with open_workloads(data_dir) as workloads:
            await workloads.apply(task)
            (status,) = await workloads.observe("tm")
            assert isinstance(status, TaskStatus)
            assert status.phase == "Pending"
    (tmp_path / "data.csv").write_text("1,2,3")
    with serving_folder(tmp_path, port):
        async with open_workloads(data_dir) as workloads:
            assert (await until_task(workloads, "tm")).phase == "Succeeded"
            assert await output(workloads) == "1,2,3"


async def test_logs_are_followed_to_the_end(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    await workloads.apply(shell(f"echo one; read line < {go}; echo two"))
    seen = b""
    async with asyncio.timeout(30):
        async for chunk in workloads.logs("tm", "train", follow=True):
            seen += chunk
            if seen == b"one\n":
                await asyncio.to_thread(go.write_text, "\n")
    assert seen == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"image": "pytorch"}, "NeedsContainers"),
        ({"mounts": (Mount(Claim("c"), "/data"),)}, "StorageNotSupported"),
        ({"mounts": (Mount(Scratch(), "/data/../x"),)}, "Invalid"),
        ({"mounts": (Mount(Scratch(), "data"),)}, "Invalid"),
    ],
)
async def test_what_cannot_run_here_is_refused(
    workloads: EmbeddedWorkloads, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Terminal) as refused:
        await workloads.apply(shell("true", **fields))
    assert refused.value.reason == reason
    assert await workloads.observe("tm") == ()


async def test_a_host_path_that_is_not_there_fails_the_task(workloads: EmbeddedWorkloads, tmp_path: Path) -> None:
    await workloads.apply(shell("true", mounts=(Mount(HostPath(str(tmp_path / "no")), "/kubedl-model"),)))
    status = await until_task(workloads, "tm")
    assert isinstance(status, TaskStatus)
    assert status.failure
    assert (status.failure.reason, status.failure.retryable) == ("StoragePathMissing", False)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", "x" * 300])
async def test_a_name_that_is_no_file_name_is_refused(workloads: EmbeddedWorkloads, name: str) -> None:
    with pytest.raises(Invalid):
        await workloads.apply(shell("true", name=name))
