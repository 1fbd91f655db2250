"""A program that keeps the workloads of a file running until it is killed: `daemon_program.py DATA_DIR WANTED`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
from tests.integration.workloads.support import open_workloads

from modelwright.ports.workloads import Server, Task


class Wanted(msgspec.Struct):
    """What should run."""

    tasks: list[Task]
    servers: list[Server]


def read(path: Path) -> list[Task | Server]:
    found = msgspec.json.decode(path.read_bytes(), type=Wanted)
    return [*found.servers, *found.tasks]


async def run(data_dir: Path, found: list[Task | Server]) -> None:
    async with open_workloads(data_dir) as workloads:
        for workload in found:
            await workloads.apply(workload)
        uids = {workload.owner.uid for workload in found}
        for owner in await workloads.owners():
            for status in await workloads.observe(owner.uid) if owner.uid not in uids else ():
                await workloads.remove(owner.uid, status.name)
        while True:
            statuses = [status for uid in sorted(uids) for status in await workloads.observe(uid)]
            if all(getattr(status, "up_to_date", True) for status in statuses) and all(
                getattr(status, "phase", "Succeeded") == "Succeeded" for status in statuses
            ):
                print("settled", msgspec.json.encode(statuses).decode(), flush=True)
                break
            await asyncio.sleep(0.01)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), read(Path(sys.argv[2]))))
