"""The runner of a command (`modelwright agent run`), alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from modelwright.agent import run

pytestmark = pytest.mark.anyio
DEADLINE = 30.0


async def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        await asyncio.sleep(0.01)


async def start(
    folder: Path, *scripts: str | Sequence[str], deadline: float = 0.0, grace: float = 10.0
) -> asyncio.subprocess.Process:
    """The runner of these shell scripts (or words), its output in a pipe."""
    words = [["/bin/sh", "-c", script] if isinstance(script, str) else list(script) for script in scripts]
    workers = [{"argv": argv, "env": {"RANK": str(rank)}} for rank, argv in enumerate(words)]
    plan = {"workers": workers, "cwd": str(folder), "deadline": deadline, "grace": grace}
    (folder / "command.json").write_text(json.dumps(plan))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "modelwright.agent.run", "--folder", str(folder)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def result_of(folder: Path, process: asyncio.subprocess.Process) -> tuple[dict[str, Any], list[str]]:
    """The result, and the lines that were printed."""
    async with asyncio.timeout(DEADLINE):
        output, _ = await process.communicate()
    assert process.returncode == 0
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result, output.decode("utf-8", "replace").splitlines()


async def run_all(folder: Path, *scripts: str | Sequence[str], **options: float) -> tuple[dict[str, Any], list[str]]:
    return await result_of(folder, await start(folder, *scripts, **options))


def codes(result: dict[str, Any]) -> list[int | None]:
    return [worker["exitCode"] for worker in result["workers"]]


async def test_it_writes_down_how_a_command_ended_and_never_runs_it_twice(tmp_path: Path) -> None:
    result, _ = await run_all(tmp_path, f"echo x >> {tmp_path}/count; exit 4")
    assert (result["exitCode"], result["reason"], codes(result)) == (4, "", [4])
    again = await start(tmp_path, f"echo x >> {tmp_path}/count")
    await again.communicate()
    assert (again.returncode, json.loads((tmp_path / "result.json").read_text())) == (1, result)
    assert (tmp_path / "count").read_text() == "x\n"


async def test_it_says_which_signal_ended_a_command(tmp_path: Path) -> None:
    result, _ = await run_all(tmp_path, "kill -KILL $$")
    assert (result["exitCode"], "SIGKILL" in result["message"]) == (-9, True)


async def test_a_signal_without_a_name_is_said_by_its_number(tmp_path: Path) -> None:
    result, _ = await run_all(tmp_path, f"kill -{signal.SIGRTMIN + 3} $$")
    assert result["exitCode"] == -(signal.SIGRTMIN + 3)
    assert str(signal.SIGRTMIN + 3) in result["message"]


async def test_it_gives_a_command_its_grace(tmp_path: Path) -> None:
    script = f"trap 'echo saved > {tmp_path}/saved; exit 0' TERM; while :; do sleep 0.01; done"
    result, _ = await run_all(tmp_path, script, deadline=0.5)
    assert (result["reason"], result["exitCode"]) == ("DeadlineExceeded", 0)
    assert (tmp_path / "saved").exists()


async def test_output_of_one_worker_is_left_as_it_is(tmp_path: Path) -> None:
    _, lines = await run_all(tmp_path, "printf 'a\\nb'; printf c >&2")
    assert lines == ["a", "bc"]


# Several workers ----------------------------------------------------------------------------------------------------


async def test_all_workers_run_at_once_and_each_line_names_its_writer(tmp_path: Path) -> None:
    meet = f"touch {tmp_path}/here$RANK; while ! [ -e {tmp_path}/here$((1 - $RANK)) ]; do sleep 0.01; done; echo $RANK"
    result, lines = await run_all(tmp_path, meet, f"{meet}; echo err >&2; printf end")
    assert (result["exitCode"], result["reason"], result["message"], codes(result)) == (0, "", "", [0, 0])
    assert sorted(lines) == ["worker-0: 0", "worker-1: 1", "worker-1: end", "worker-1: err"]


async def test_the_first_that_fails_ends_the_others_and_is_named(tmp_path: Path) -> None:
    saving = f"trap 'echo saved > {tmp_path}/saved; exit 9' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    failing = f"while ! [ -e {tmp_path}/ready ]; do sleep 0.01; done; exit 3"
    result, _ = await run_all(tmp_path, saving, failing)
    assert (result["exitCode"], result["reason"], codes(result)) == (3, "", [9, 3])
    assert result["message"] == "worker-1 exited with code 3, and the other workers were ended"
    assert (tmp_path / "saved").exists()


async def test_a_worker_that_ends_well_ends_nobody_else(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    process = await start(tmp_path, "exit 0", f"read line < {go}; exit 0")

    def ended() -> bool:
        state = tmp_path / "workers.json"
        return state.exists() and [w["exitCode"] for w in json.loads(state.read_text())["workers"]] == [0, None]

    await until(ended, "the end of the first")
    await asyncio.to_thread(go.write_text, "\n")
    result, _ = await result_of(tmp_path, process)
    assert codes(result) == [0, 0]
    assert all(worker["finishedAt"] for worker in result["workers"])


async def test_a_worker_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    stubborn = f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.01; done"
    failing = f"while ! [ -e {tmp_path}/ready ]; do sleep 0.01; done; exit 3"
    result, _ = await run_all(tmp_path, stubborn, failing, grace=0.2)
    assert (result["exitCode"], codes(result)) == (3, [-9, 3])


async def test_deadline_and_request_end_all(tmp_path: Path) -> None:
    result, _ = await run_all(tmp_path, "sleep 600", "sleep 600", deadline=0.3)
    assert (result["reason"], codes(result)) == ("DeadlineExceeded", [-15, -15])
    (tmp_path / "other").mkdir()
    process = await start(tmp_path / "other", "sleep 600", "sleep 600")
    await until((tmp_path / "other" / "workers.json").exists, "the workers")
    process.terminate()
    result, _ = await result_of(tmp_path / "other", process)
    assert (result["reason"], codes(result)) == ("Interrupted", [-15, -15])


async def test_nothing_that_a_worker_has_started_outlives_the_runner(tmp_path: Path) -> None:
    script = f"(setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' &) ; while ! [ -s {tmp_path}/pid ]; do :; done"
    result, _ = await run_all(tmp_path, script, "sleep 600 & exit 0")
    assert codes(result) == [0, 0]
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_a_command_that_cannot_be_started_ends_those_that_were(tmp_path: Path) -> None:
    result, _ = await run_all(tmp_path, "sleep 600", ("/nothing/here", "x"))
    assert (result["exitCode"], result["reason"], codes(result)) == (127, "CommandNotStarted", [-15, None])
    assert "/nothing/here" in result["message"]
    (tmp_path / "null").mkdir()
    result, _ = await run_all(tmp_path / "null", ("/bin/echo", "a\0b"))
    assert (result["exitCode"], result["reason"]) == (126, "CommandNotStarted")
    (tmp_path / "file").write_text("")
    (tmp_path / "other").mkdir()
    result, _ = await run_all(tmp_path / "other", (str(tmp_path / "file"),))
    assert (result["exitCode"], result["reason"]) == (126, "CommandNotStarted")


async def test_endless_and_binary_output_is_passed_on_in_bounded_lines(tmp_path: Path) -> None:
    endless = "import os; [os.write(1, b'x' * 65536) for _ in range(64)]"
    binary = "import os; os.write(1, bytes(range(256)) * 256)"
    result, lines = await run_all(
        tmp_path, (sys.executable, "-S", "-c", endless), (sys.executable, "-S", "-c", binary), "echo whole"
    )
    assert codes(result) == [0, 0, 0]
    assert "worker-2: whole" in lines
    long = [line for line in lines if line.startswith("worker-0: ")]
    assert sum(len(line) - len("worker-0: ") for line in long) == 64 * 65536
    assert max(map(len, long)) <= 17 * 1024


async def test_who_holds_a_pipe_open_is_not_waited_for(tmp_path: Path) -> None:
    script = (
        f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600' & while ! [ -s {tmp_path}/pid ]; do :; done; exit 0"
    )
    go = tmp_path / "go"
    os.mkfifo(go)
    process = await start(tmp_path, script, f"read line < {go}")
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "the child")
    await asyncio.to_thread(go.write_text, "\n")
    result, _ = await result_of(tmp_path, process)
    assert codes(result) == [0, 0]


async def test_an_end_that_cannot_be_written_is_written_once_there_is_room(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    process = await start(tmp_path, f"read line < {go}; exit 5")
    await until((tmp_path / "workers.json").exists, "the worker")
    runner = psutil.Process(process.pid)
    (_, hard) = runner.rlimit(psutil.RLIMIT_FSIZE)
    runner.rlimit(psutil.RLIMIT_FSIZE, (0, hard))
    await asyncio.to_thread(go.write_text, "\n")
    await until(lambda: not runner.children(), "the end of the command")
    assert not (tmp_path / "result.json").exists()
    runner.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
    result, _ = await result_of(tmp_path, process)
    assert result["exitCode"] == 5


async def test_a_runner_whose_folder_is_gone_ends_with_its_command(tmp_path: Path) -> None:
    folder, go = tmp_path / "task", tmp_path / "go"
    folder.mkdir()
    os.mkfifo(go)
    process = await start(folder, f"read line < {go}")
    await until((folder / "workers.json").exists, "the worker")
    shutil.rmtree(folder)
    await asyncio.to_thread(go.write_text, "\n")
    async with asyncio.timeout(DEADLINE):
        await process.communicate()
    assert process.returncode == 1


async def test_who_asks_for_the_end_does_not_wait_for_a_disk(tmp_path: Path) -> None:
    process = await start(tmp_path, "sleep 600")
    await until((tmp_path / "workers.json").exists, "the worker")
    runner = psutil.Process(process.pid)
    runner.rlimit(psutil.RLIMIT_FSIZE, (0, runner.rlimit(psutil.RLIMIT_FSIZE)[1]))
    process.terminate()
    async with asyncio.timeout(DEADLINE):
        await process.communicate()
    assert process.returncode == 1


def test_it_needs_a_folder() -> None:
    with pytest.raises(SystemExit):
        run.main([])


# What cannot be started ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "content", "told"),
    [
        ("no-such-program", "", "on this PATH: "),
        ("./train.sh", "", "absolute path"),
        ("{folder}/script", "#!/no/such/interpreter\n", "interpreter"),
        ("{folder}/script", "echo x\n", "#!/bin/sh"),
    ],
)
async def test_it_says_why_a_program_cannot_be_started(tmp_path: Path, word: str, content: str, told: str) -> None:
    script = tmp_path / "script"
    script.write_text(content)
    script.chmod(0o700)
    word = word.format(folder=tmp_path)
    result, _ = await run_all(tmp_path, [word])
    assert (result["reason"], codes(result)) == ("CommandNotStarted", [None])
    assert result["message"].startswith(f"it cannot be started: {word}: ")
    assert told in result["message"]
