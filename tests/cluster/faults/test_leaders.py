"""Two operators, one of which leads: whatever happens to the leader, nothing is made or built twice."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import MOMENTS, Do, Moment
from tests.cluster.faults.operator import OperatorProcess
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.proxy import FaultProxy
from tests.cluster.faults.registry import Registry
from tests.cluster.faults.world import World, world

from modelwright.adapters.kubernetes.lease_record import LEASES

pytestmark = pytest.mark.anyio
NAMES = tuple(f"v-{number}" for number in range(4))
TIMES = ("--lease-duration", "4s", "--lease-renew-deadline", "3s", "--lease-retry-period", "500ms")


class Pair:
    """The leader and who stands by, each behind a proxy of its own."""

    def __init__(self, stage: World, leader: OperatorProcess, other: OperatorProcess, beside: FaultProxy) -> None:
        self.stage, self.leader, self.other, self.beside = stage, leader, other, beside

    async def holder(self) -> str:
        found = await self.stage.get(LEASES, "operator")
        return str(found.get("spec", {}).get("holderIdentity", ""))

    def made_twice(self) -> set[str]:
        made = [each for each in (*self.stage.proxy.made(), *self.beside.made()) if not each.startswith("events ")]
        return {each for each in made if made.count(each) > 1}


@asynccontextmanager
async def pair(plane: Plane, registry: Registry, folder: Path) -> AsyncIterator[Pair]:
    async with (
        world(plane, registry, folder) as stage,
        FaultProxy(plane.url, plane.ca_file, folder / "beside") as beside,
    ):
        options = ("--lease-namespace", stage.namespace, "--lease-name", "operator", *TIMES)
        leader = stage.operator(*options, name="leader")
        other = stage.operator(*options, name="other", proxy=beside)
        leader.start()

        async def leads() -> bool:
            return "jobs" in stage.proxy.watched()

        async def stands_by() -> bool:
            return "standing by" in other.tail()

        await stage.until(leads, "the first operator to lead")
        other.start()
        await stage.until(stands_by, "the second operator to stand by")
        yield Pair(stage, leader, other, beside)
        leader.send(signal.SIGCONT)


def makes_a_job(call: Call) -> bool:
    return call.method == "POST" and call.resource == "jobs"


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_leader_frozen_past_its_lease_and_woken_again_writes_nothing(
    plane: Plane, registry: Registry, tmp_path: Path, moment: Moment
) -> None:
    async with pair(plane, registry, tmp_path) as two:
        stage = two.stage

        async def freeze(_: Call) -> None:
            two.leader.send(signal.SIGSTOP)

        stage.proxy.faults = [Do(makes_a_job, moment, freeze, 1)]
        await stage.apply(*(stage.version(name) for name in NAMES))
        await stage.built_once(*NAMES)
        holder, before = await two.holder(), len(stage.proxy.calls)
        two.leader.send(signal.SIGCONT)

        async def ended() -> bool:
            return not two.leader.alive

        await stage.until(ended, "the former leader to end")
        assert two.leader.stop() != 0
        assert [str(call) for call in stage.proxy.calls[before:] if call.write and call.status < 300] == []
        assert await two.holder() == holder
        assert two.made_twice() == set()
        two.leader.start()
        await stage.apply(stage.version("after"))
        await stage.built_once(*NAMES, "after")
        assert await two.holder() == holder


async def test_a_write_of_the_former_leader_that_arrives_late_changes_nothing(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    """A lease does not fence: what was sent in time may arrive when all is over. It is cleared away."""
    async with pair(plane, registry, tmp_path) as two:
        stage = two.stage

        async def freeze(_: Call) -> None:
            two.leader.send(signal.SIGSTOP)
            await stage.built_once("v-0")

        late = Do(makes_a_job, "before", freeze, 1)
        stage.proxy.faults = [late]
        await stage.apply(stage.version("v-0"))

        async def arrived() -> bool:
            return any(makes_a_job(call) and call.status for call in stage.proxy.calls)

        await stage.until(arrived, "the late write to arrive")
        tags = stage.registry.tags(stage.repository("v-0"))
        await stage.built("v-0")
        assert stage.registry.tags(stage.repository("v-0")) == tags


async def test_when_the_leader_is_killed_the_other_takes_over(plane: Plane, registry: Registry, tmp_path: Path) -> None:
    async with pair(plane, registry, tmp_path) as two:
        stage = two.stage

        async def kill(_: Call) -> None:
            two.leader.kill()

        stage.proxy.faults = [Do(makes_a_job, "during", kill, 1)]
        await stage.apply(*(stage.version(name) for name in NAMES))
        await stage.built_once(*NAMES)
        assert two.made_twice() == set()


async def test_a_leader_that_is_asked_to_end_lets_the_other_lead_at_once(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with pair(plane, registry, tmp_path) as two:
        stage = two.stage
        await stage.apply(*(stage.version(name) for name in NAMES))
        assert two.leader.stop() == 0
        await stage.built_once(*NAMES)
        assert two.made_twice() == set()
