"""What becomes of workloads on a disk that is full, and once there is room: `full_disk_program.py DATA_DIR HOW`.

HOW is `filled`: DATA_DIR is a small file system of its own, which is filled to the last byte; or `limited`: no file may
grow, for this process and what it starts. Ends with code 0 if all is as it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
from pathlib import Path

import psutil
from tests.integration.workloads.support import (
    OWNER,
    a_server,
    ask,
    of_data_dir,
    open_workloads,
    server_status,
    until,
    until_server,
    until_task,
)
from tests.integration.workloads.test_commands import shell
from tests.integration.workloads.test_workers import workers_of

from modelwright.adapters.embedded.workloads import EmbeddedWorkloads
from modelwright.ports.errors import Unavailable
from modelwright.ports.workloads import Mount, Scratch


class Filled:
    """A small file system, and a file that takes what is left of it."""

    def __init__(self, data_dir: Path) -> None:
        self._ballast = data_dir / "ballast"

    def fill(self) -> None:
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(descriptor, b"x" * size)
        os.close(descriptor)

    def free(self) -> None:
        self._ballast.unlink()


class Limited:
    """No file may grow, whoever writes it."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def fill(self) -> None:
        self._limit(0)

    def free(self) -> None:
        self._limit(resource.getrlimit(resource.RLIMIT_FSIZE)[1])

    def _limit(self, size: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for process in [psutil.Process(), *of_data_dir(self._data_dir)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.rlimit(resource.RLIMIT_FSIZE, (size, hard))


Disk = Filled | Limited


async def a_command_that_fills_it(data_dir: Path, disk: Disk) -> None:
    """It fails, its end is told while there is no room, and written down once there is."""
    async with open_workloads(data_dir) as workloads:
        record = data_dir / "run" / "tm" / "train" / "record.json"
        script = "echo begun; while ! [ -e $M/go ]; do sleep 0.01; done; cat /dev/zero > $M/weights"
        await workloads.apply(shell(script, env={"M": "/scratch"}, mounts=(Mount(Scratch(), "/scratch"),)))
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
        disk.fill()
        (data_dir / "run" / "tm" / "train" / "root" / "scratch" / "go").symlink_to("/")
        if isinstance(disk, Filled):  # room for the end was taken at the start
            await until_task(workloads, "tm")
        await until(lambda: not workers_of(data_dir), "the end of the command")
        assert "status" not in kept(record), "there was no room for it"
        disk.free()
        status = await until_task(workloads, "tm")
        assert (status.phase, status.failure and status.failure.reason) == ("Failed", "CommandFailed"), status
        assert status.exit_code, status
        await until(lambda: "status" in kept(record), "the end to be written down")
    async with open_workloads(data_dir) as workloads:
        assert await until_task(workloads, "tm") == status
        await workloads.remove("tm", "train")


def kept(record: Path) -> set[str]:
    """What the record speaks of."""
    return {name for name, value in json.loads(record.read_text()).items() if value is not None}


async def what_is_asked_for_on_it(data_dir: Path, disk: Disk) -> None:
    """It is refused retryably, what runs goes on, what is removed goes; and with room all comes to pass."""
    async with open_workloads(data_dir) as workloads:
        await workloads.apply(a_server(data_dir, "v1"))
        port = (await until_server(workloads, lambda status: status.up_to_date)).port
        await workloads.apply(shell("sleep 600", name="long"))
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
        changed = a_server(data_dir, "v2")
        disk.fill()
        for workload in (shell("true", name="refused"), changed):
            try:
                await workloads.apply(workload)
            except Unavailable as refused:
                assert refused.reason == "DiskError", refused
            else:
                raise AssertionError(f"{workload.name} was accepted")
        await until_server(
            workloads, lambda status: status.failure is not None or status.versions[0].failure is not None
        )
        assert ask(port)["text"] == "v1"
        assert (await server_status(workloads)).ready_replicas == 1
        await workloads.remove("tm", "long")
        assert await workloads.observe("tm") == ()
        disk.free()
        await workloads.apply(changed)
        await until_server(workloads, lambda status: status.up_to_date and status.serving_version == "v2")
        await workloads.apply(shell("echo ran", name="refused"))
        assert (await until_task(workloads, "tm")).phase == "Succeeded"
        await workloads.remove("tm", "refused")


async def a_start_on_it(data_dir: Path, disk: Disk) -> None:
    """What was left running is adopted, and goes on."""
    workloads = open_workloads(data_dir)
    async with workloads:
        port = (await until_server(workloads, lambda status: status.up_to_date)).port
        await workloads.apply(shell("sleep 600", name="long"))
        await until_task(workloads, "tm", lambda status: status.phase == "Running")
        await workloads.close(stop_servers=False)
    disk.fill()
    again: EmbeddedWorkloads = open_workloads(data_dir)
    async with again:
        await until_task(again, "tm", lambda status: status.phase == "Running")
        await until_server(again, lambda status: status.ready_replicas == 1)
        assert ask(port)["text"] == "v2"
        disk.free()
        await until_server(again, lambda status: status.up_to_date)
        await again.remove("tm", "long")
        await again.remove(OWNER.uid, "server")


async def main(data_dir: Path, how: str) -> None:
    disk: Disk = Filled(data_dir) if how == "filled" else Limited(data_dir)
    await a_command_that_fills_it(data_dir, disk)
    await what_is_asked_for_on_it(data_dir, disk)
    await a_start_on_it(data_dir, disk)
    assert of_data_dir(data_dir) == []
    print("all is as it should be")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
