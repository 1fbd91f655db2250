"""What is written down and read back: records, logs, manifests, metrics."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from modelwright.adapters.embedded.workloads import logs
from modelwright.adapters.embedded.workloads.records import RunDirectory, ServerRecord, TaskRecord
from modelwright.adapters.embedded.workloads.state import ServerState, StateFile
from modelwright.agent.manifest import describe, verify
from modelwright.agent.metrics import read_metrics
from modelwright.ports.errors import Invalid, Mismatch, Rejected, Unavailable
from modelwright.ports.workloads import Command, Owner, Server, Task

OWNER = Owner(api_version="v1", kind="TrainingModel", namespace="default", name="t", uid="uid")
TASK = Task(name="task", owner=OWNER, action=Command(command=("true",)))


# Records ------------------------------------------------------------------------------------------------------------


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    task = TaskRecord(task=TASK, nonce="n")
    server = ServerRecord(server=Server(name="s", owner=OWNER, program=Command(command=("x",))), port=5)
    run.write(task)
    run.write(server)
    assert sorted(run.read(), key=lambda record: isinstance(record, TaskRecord)) == [server, task]
    run.close()


def test_a_broken_record_is_forgotten_with_its_folder(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.write(TaskRecord(task=TASK))
    (run.folder("uid", "task") / "record.json").write_text("{")
    assert list(run.read()) == []
    assert not (tmp_path / "run" / "uid").exists()
    run.close()


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a\0", "x" * 201, "-x", "ä"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(Invalid):
        run.folder("uid", name)
    with pytest.raises(Invalid):
        run.folder(name, "task")
    run.close()


def test_one_program_at_a_time_holds_a_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelwright.adapters.embedded.workloads.records._LOCK_SECONDS", 0.1)
    first = RunDirectory(tmp_path / "run")
    with pytest.raises(Unavailable) as refused:
        RunDirectory(tmp_path / "run")
    assert refused.value.reason == "DataDirectoryInUse"
    domain = first.domain
    first.close()
    second = RunDirectory(tmp_path / "run")
    assert second.domain == domain
    second.close()


def test_a_state_is_read_when_it_is_another(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json", ServerState)
    assert not file.look()
    (tmp_path / "state.json").write_text(json.dumps({"pid": 1, "phase": "ready", "defaultVersion": "v1", "new": 1}))
    assert file.look()
    assert file.state
    assert file.state.default_version == "v1"
    assert not file.look()
    (tmp_path / "state.json").write_text("{half")
    assert not file.look()
    assert file.state.default_version == "v1"


# Logs ---------------------------------------------------------------------------------------------------------------


async def all_of(path: Path) -> bytes:
    return b"".join([chunk async for chunk in logs.read(path, follow=False, ended=lambda: True)])


@pytest.mark.anyio
async def test_a_long_log_keeps_its_latest_part_while_the_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = logs.open_log(path)
    for number in range(5):
        os.write(descriptor, f"line {number} {'x' * 90}\n".encode())
        logs.rotate(path, limit=250)
    os.close(descriptor)
    assert logs.size(path) <= 250
    assert b"line 4" in await all_of(path)
    assert logs.size(path) + logs.size(tmp_path / "log.1") < 700


@pytest.mark.anyio
async def test_following_survives_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a long first part\n")
    seen: list[bytes] = []
    async for chunk in logs.read(path, follow=True, ended=lambda: b"second\n" in seen):
        seen.append(chunk)
        if chunk.endswith(b"part\n"):
            logs.rotate(path, limit=1)
            with path.open("ab") as file:
                file.write(b"second\n")
    assert b"".join(seen) == b"a long first part\nsecond\n"


@pytest.mark.anyio
async def test_a_follower_loses_nothing_that_it_had_not_read_when_the_log_was_rotated(tmp_path: Path) -> None:
    path, rounds = tmp_path / "log", 5
    seen = written = b""
    done = False

    async def write() -> None:
        nonlocal written, done
        for number in range(rounds):
            for line in (b"%d first\n" % number, b"%d second\n" % number):
                with path.open("ab") as file:
                    file.write(line * 50)
                written += line * 50
            logs.rotate(path, limit=100)
            while seen != written:
                await asyncio.sleep(0.01)
        done = True

    writing = asyncio.create_task(write())
    async with asyncio.timeout(60):
        async for chunk in logs.read(path, follow=True, ended=lambda: done):
            seen += chunk
    await writing
    assert seen == written


@pytest.mark.anyio
async def test_a_log_that_cannot_be_copied_is_emptied_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    (tmp_path / ".log.1.new").mkdir()
    logs.rotate(path, limit=100)
    assert (logs.size(path), logs.size(tmp_path / "log.1")) == (0, 0)


def test_the_last_lines_are_those_since_the_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    since = logs.size(path)
    with path.open("a") as file:
        file.write("\n".join(str(number) for number in range(9)) + "\n")
    assert logs.last_lines(path, since, count=2) == "7\n8"
    assert logs.last_lines(path, since) == "4\n5\n6\n7\n8"
    assert "old" not in logs.last_lines(path, since, count=100)
    assert logs.last_lines(tmp_path / "none") == ""


def test_the_last_lines_of_one_worker_are_found_among_those_of_others(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("worker-1: early\nworker-1: broken\nworker-11: no\n" + "worker-2: ended\n" * 1000)
    assert logs.last_lines_of(path, "worker-1") == "early\nbroken"
    assert logs.last_lines_of(path, "worker-1", count=1) == "broken"
    assert logs.last_lines_of(path, "worker-2", longest=5) == "ended"
    assert logs.last_lines_of(path, "worker-3") == ""
    assert logs.last_lines_of(tmp_path / "none", "worker-3") == ""


# Models -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 10)
    (folder / "sub" / "labels").write_bytes(b"l")
    return folder


def test_a_folder_that_is_as_it_was_is_verified(model: Path) -> None:
    moved: list[int] = []
    manifest = describe(model)
    verify(model, manifest, moved.append)
    assert sum(moved) == manifest.size == 11
    assert msgspec.json.decode(msgspec.json.encode(manifest), type=type(manifest)) == manifest


@pytest.mark.parametrize("change", ["content", "length", "more", "less", "link", "fifo"])
def test_a_folder_that_is_not_as_it_was_is_refused(model: Path, change: str) -> None:
    manifest = describe(model)
    weights = model / "weights"
    if change == "content":
        weights.write_bytes(b"x" * 10)
    elif change == "length":
        weights.write_bytes(b"w" * 11)
    elif change == "more":
        (model / "other").touch()
    else:
        weights.unlink()
    if change == "link":
        weights.symlink_to(model / "sub" / "labels")
    elif change == "fifo":
        os.mkfifo(weights)
    with pytest.raises(Mismatch):
        verify(model, manifest, lambda _count: None)


def write_metrics(model: Path, content: str) -> None:
    (model / ".modelwright").mkdir()
    (model / ".modelwright" / "metrics.json").write_text(content)


def test_metrics_are_numbers_by_name(model: Path) -> None:
    assert read_metrics(model) == {}
    write_metrics(model, '{"loss": 0.5, "epochs": 3}')
    assert read_metrics(model) == {"epochs": 3.0, "loss": 0.5}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1]",
        '{"a": "1"}',
        '{"a": true}',
        '{"a": null}',
        '{"a": {"b": 1}}',
        '{"a": NaN}',
        '{"a": 1e999}',
        json.dumps({str(number): number for number in range(65)}),
        json.dumps({"x" * 129: 1}),
        '{"a": 1' + " " * 70000 + "}",
        "[" * 60000,
        '{"a": ' * 10000,
    ],
)
def test_metrics_that_are_anything_else_are_refused(model: Path, content: str) -> None:
    write_metrics(model, content)
    with pytest.raises(Rejected) as refused:
        read_metrics(model)
    assert refused.value.reason == "MetricsIgnored"


@pytest.mark.parametrize("kind", ["link", "folder link", "fifo", "folder"])
def test_metrics_are_read_from_a_regular_file_only(model: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "metrics.json").write_text('{"a": 1}')
    private = model / ".modelwright"
    if kind == "folder link":
        private.symlink_to(tmp_path / "real")
    else:
        private.mkdir()
        target = private / "metrics.json"
        if kind == "link":
            target.symlink_to(tmp_path / "real" / "metrics.json")
        elif kind == "fifo":
            os.mkfifo(target)
        else:
            target.mkdir()
    try:
        assert read_metrics(model) == {}
    except Rejected as refused:
        assert refused.reason == "MetricsIgnored"
