"""The program is killed at any moment: servers go on, and the next program comes to the same end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.integration.workloads.daemon_program import Wanted
from tests.integration.workloads.support import (
    DEADLINE,
    OWNER,
    a_server,
    ask,
    command,
    hammering,
    of_data_dir,
    servers_of,
)

from modelwright.oci.storage import ImageStorage
from modelwright.ports.workloads import BuildImage, Command, HostPath, Server, Task

ROOT = Path(__file__).parents[3]
replace = msgspec.structs.replace


class Daemon:
    """The program as a process of its own, to be killed and started again."""

    def __init__(self, data_dir: Path, wanted: Path) -> None:
        self._argv = [sys.executable, "-m", "tests.integration.workloads.daemon_program", str(data_dir), str(wanted)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._argv, cwd=ROOT, stdout=subprocess.PIPE)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def end(self) -> None:
        """SIGINT, and wait."""
        assert self._process
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=DEADLINE)
        self._process = None

    def settled(self) -> list[dict[str, Any]]:
        """What it says once everything is as it should be."""
        assert self._process
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        end, line = time.monotonic() + 2 * DEADLINE, b""
        while not line.endswith(b"\n"):
            assert time.monotonic() < end, "the program does not settle"
            line += self._process.stdout.read() or b""
            time.sleep(0.01)
        result: list[dict[str, Any]] = msgspec.json.decode(line.removeprefix(b"settled "))
        return result


@contextmanager
def running(data_dir: Path, wanted: Path) -> Iterator[Daemon]:
    daemon = Daemon(data_dir, wanted)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.kill()


def want(path: Path, server: Server, *tasks: Task) -> None:
    path.write_bytes(msgspec.json.encode(Wanted(tasks=list(tasks), servers=[server])))


def the_tasks(tmp_path: Path) -> tuple[Task, Task]:
    model = tmp_path / "model"
    model.mkdir()
    with (model / "weights.bin").open("wb") as file:
        file.truncate(40 << 20)
    build = BuildImage(source=HostPath(str(model)), repository="hub/m", tags=("v1",))
    script = f"echo x >> {tmp_path}/count; sleep 1; echo done"
    return (
        Task(name="build", owner=replace(OWNER, uid="mv"), action=build),
        Task(
            name="train", owner=replace(OWNER, uid="tm"), action=Command(command=("/bin/sh", "-c", script), workers=2)
        ),
    )


def others_of(data_dir: Path) -> list[psutil.Process]:
    """What runs besides servers and warm workers."""
    servers = servers_of(data_dir)
    return [
        process
        for process in of_data_dir(data_dir)
        if process not in servers and "modelwright.agent.worker" not in command(process)
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_it_comes_to_the_same_end(data_dir: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    wanted = tmp_path / "wanted.json"
    tasks = the_tasks(tmp_path)
    want(wanted, a_server(data_dir, "v1", replicas=2), *tasks)
    with running(data_dir, wanted) as daemon:
        for _ in range(6):
            time.sleep(chance.uniform(0.1, 0.9))
            daemon.kill()
            daemon.start()
        statuses = {status["name"]: status for status in daemon.settled()}
        assert statuses["server"]["readyReplicas"] == 2
        assert len(servers_of(data_dir)) == 2
        assert others_of(data_dir) == []
        assert (tmp_path / "count").read_text() == "x\nx\n"
        stored = ImageStorage(data_dir / "images").repository("hub/m")
        assert stored.tags() == ["v1"]
        assert stored.read_manifest("v1").digest == statuses["build"]["result"]["digest"]
        daemon.end()
    assert of_data_dir(data_dir) == []


@pytest.mark.parametrize("in_place", [False, True])
def test_no_request_fails_while_it_is_killed_and_started_again(
    data_dir: Path, tmp_path: Path, *, in_place: bool
) -> None:
    chance = random.Random(in_place)
    wanted = tmp_path / "wanted.json"
    replicas = 1 if in_place else 2
    want(wanted, a_server(data_dir, "v0", in_place=in_place, replicas=replicas))
    with running(data_dir, wanted) as daemon:
        (status,) = daemon.settled()
        with hammering(status["port"]) as hammer:
            for number in range(1, 7):
                want(wanted, a_server(data_dir, f"v{number}", in_place=in_place, replicas=replicas))
                daemon.kill()
                daemon.start()
                time.sleep(chance.uniform(0.2, 1.2))
            daemon.kill()
            daemon.start()
            (after,) = daemon.settled()
            assert ask(after["port"])["text"] == "v6"
        assert (after["port"], after["servingVersion"], after["readyReplicas"]) == (status["port"], "v6", replicas)
        assert len(servers_of(data_dir)) == replicas
        assert "v0" in hammer.answers
        want(wanted, replace(a_server(data_dir, "v6"), owner=replace(OWNER, uid="another")))
        daemon.kill()
        daemon.start()
        daemon.settled()
        assert len(servers_of(data_dir)) == 1
        daemon.end()
    assert of_data_dir(data_dir) == []
