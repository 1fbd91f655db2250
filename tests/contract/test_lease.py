"""Leader election on a real kube-apiserver: one holder at a time, whatever clocks say and whoever edits the Lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.contract.kube_apiserver import KubeApiserver
from tests.contract.subjects import fresh_name

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.lease import Election
from modelwright.adapters.kubernetes.lease_record import LEASES, LeaseName, LeaseTimes
from modelwright.adapters.kubernetes.resource import NAMESPACES
from modelwright.ports.errors import Invalid, Unavailable

pytestmark = [pytest.mark.anyio, pytest.mark.apiserver]

DEADLINE_SECONDS = 60.0
PATIENT = LeaseTimes(duration=3600.0, renew_deadline=1800.0, retry_period=0.1)
"""Longer than any test: it is never taken over because of its age."""


@pytest.fixture
async def client(kube_apiserver: KubeApiserver) -> AsyncIterator[KubernetesClient]:
    async with KubernetesClient(load_kubeconfig([kube_apiserver.kubeconfig])) as client:
        yield client


@pytest.fixture
async def namespace(client: KubernetesClient) -> str:
    name = fresh_name("lease")
    await client.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def candidate(client: KubernetesClient, namespace: str, identity: str, **more: Any) -> Election:
    return Election(client, LeaseName(namespace, "operator", identity), PATIENT, **more)


async def lease(client: KubernetesClient, namespace: str) -> JSON:
    spec: JSON = (await client.get(LEASES, namespace, "operator"))["spec"]
    return spec


async def edit(client: KubernetesClient, namespace: str, **spec: Any) -> None:
    await client.merge_patch(LEASES, namespace, "operator", {"spec": spec})


@asynccontextmanager
async def running(election: Election) -> AsyncIterator[asyncio.Task[None]]:
    """A candidate in the background: it acquires, then holds."""

    async def life() -> None:
        await election.acquire()
        await election.hold()

    task = asyncio.create_task(life())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Any) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


async def test_the_first_candidate_takes_a_lease_that_nobody_has_and_writes_what_others_read(
    client: KubernetesClient, namespace: str
) -> None:
    first = candidate(client, namespace, "first")
    with pytest.raises(Unavailable):
        first.check()
    await first.acquire()
    first.check()
    spec = await lease(client, namespace)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", 3600, 0)
    assert spec["acquireTime"] == spec["renewTime"]


async def test_a_second_candidate_stands_by_until_the_lease_is_released(
    client: KubernetesClient, namespace: str
) -> None:
    first, second = candidate(client, namespace, "first"), candidate(client, namespace, "second")
    await first.acquire()
    async with running(second):
        await until(lambda: second.holder == "first")
        assert not second.leading
        await first.release()
        assert not first.leading
        await until(lambda: second.leading)
    spec = await lease(client, namespace)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)


async def test_a_lease_that_is_renewed_is_never_taken_over(client: KubernetesClient, namespace: str) -> None:
    first, clock = candidate(client, namespace, "first"), Clock()
    second = candidate(client, namespace, "second", now=clock)
    await first.acquire()
    async with running(first) as leading, running(second):
        await until(lambda: second.holder == "first")
        for _ in range(4):
            seen = second._version
            await until(lambda seen=seen: second._version != seen)
            clock.ahead += PATIENT.duration / 2
        assert not second.leading
        assert not leading.done()
    assert (await lease(client, namespace))["leaseTransitions"] == 0


@pytest.mark.parametrize("ahead", [timedelta(days=-400), timedelta(days=400)])
async def test_a_lease_runs_out_by_what_is_seen_of_it_whatever_the_clock_of_its_holder_says(
    client: KubernetesClient, namespace: str, ahead: timedelta
) -> None:
    first = candidate(client, namespace, "first")
    await first.acquire()
    wrong = (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await edit(client, namespace, renewTime=wrong, acquireTime=wrong)
    clock = Clock()
    second = candidate(client, namespace, "second", now=clock)
    async with running(second):
        await until(lambda: second.holder == "first")
        clock.ahead = PATIENT.duration - 60
        await looked_again(client, namespace, second)
        assert not second.leading
        clock.ahead = PATIENT.duration + 60
        await until(lambda: second.leading)
    assert (await lease(client, namespace))["leaseTransitions"] == 1


class Clock:
    """The time since it was made, and as much more as a test wants."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


async def looked_again(client: KubernetesClient, namespace: str, election: Election) -> None:
    """Until a candidate has looked at the lease once more: a change of its metadata counts for nothing."""
    touched = {"metadata": {"annotations": {"seen": "by-a-tool"}}}
    version = (await client.merge_patch(LEASES, namespace, "operator", touched))["metadata"]["resourceVersion"]
    await until(lambda: election._version == version)


async def test_a_holder_that_could_not_renew_in_time_stops_and_says_so(
    client: KubernetesClient, namespace: str
) -> None:
    clock = Clock()
    first = candidate(client, namespace, "first", now=clock)
    await first.acquire()
    clock.ahead = PATIENT.renew_deadline + 1
    with pytest.raises(Unavailable, match="does not hold the lease") as refused:
        first.check()
    assert refused.value.reason == "LeadershipLost"
    before = await lease(client, namespace)
    with pytest.raises(Unavailable, match="could not be renewed"):
        await first.hold()
    assert await lease(client, namespace) == before, "what was lost is not taken back by the way"


async def test_a_holder_stops_at_once_when_it_sees_another_in_the_lease(
    client: KubernetesClient, namespace: str
) -> None:
    first = candidate(client, namespace, "first")
    async with running(first) as leading:
        await until(lambda: first.leading)
        await edit(client, namespace, holderIdentity="by-hand")
        async with asyncio.timeout(DEADLINE_SECONDS):
            with pytest.raises(Unavailable, match="by-hand holds it"):
                await leading
    assert not first.leading
    await first.release()
    assert (await lease(client, namespace))["holderIdentity"] == "by-hand", "nobody else's lease is released"


async def test_a_lease_that_was_deleted_is_made_again_by_its_holder(client: KubernetesClient, namespace: str) -> None:
    first = candidate(client, namespace, "first")
    async with running(first):
        await until(lambda: first.leading)
        await client.delete(LEASES, namespace, "operator")
        version = first._version
        await until(lambda: first._version not in ("", version))
        assert first.leading
    assert (await lease(client, namespace))["holderIdentity"] == "first"


async def test_a_write_of_somebody_else_costs_a_holder_nothing(client: KubernetesClient, namespace: str) -> None:
    renewals: list[float] = []
    first = candidate(client, namespace, "first", renewed=renewals.append)
    async with running(first) as leading:
        await until(lambda: first.leading)
        await client.merge_patch(LEASES, namespace, "operator", {"metadata": {"annotations": {"seen": "by-a-tool"}}})
        before = len(renewals)
        await until(lambda: len(renewals) > before + 2)
        assert not leading.done()


async def test_only_one_of_many_candidates_takes_a_lease_that_was_released(
    client: KubernetesClient, namespace: str
) -> None:
    first = candidate(client, namespace, "first")
    await first.acquire()
    others = [candidate(client, namespace, f"other-{number}") for number in range(8)]
    tasks = [asyncio.create_task(other.acquire()) for other in others]
    try:
        await until(lambda: all(other.holder == "first" for other in others))
        await first.release()
        await until(lambda: any(other.leading for other in others))
        winner = (await lease(client, namespace))["holderIdentity"]
        await until(lambda: all(other.holder == winner for other in others))
        assert [other.leading for other in others].count(True) == 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 4, 2), (15, 10, 0), (15, 16, 2)])
def test_times_by_which_two_could_lead_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(Invalid, match="must be longer"):
        LeaseTimes(*times).check()
