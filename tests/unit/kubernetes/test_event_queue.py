"""Events wait for builds that wait to begin, and are written in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from tests.unit.kubernetes.waiting import beside, until

from modelwright.adapters.kubernetes import event_queue
from modelwright.adapters.kubernetes.event_queue import EventQueue
from modelwright.ports.errors import Forbidden, Unavailable
from modelwright.ports.store import Event

pytestmark = pytest.mark.anyio


class World:
    """Builds wait or not; what has been written, and whether that fails."""

    def __init__(self) -> None:
        self.busy, self.tries = False, 0
        self.failure: Exception | None = None
        self.refused = ""
        self.written: list[tuple[str, datetime]] = []
        self.queue = EventQueue(self.write, lambda: self.busy)

    @property
    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.written]

    async def write(self, event: Event, happened: datetime) -> None:
        await asyncio.sleep(0)
        self.tries += 1
        if event.reason == self.refused:
            raise Unavailable("the webhook of this namespace does not answer")
        if self.failure is not None:
            raise self.failure
        self.written.append((event.reason, happened))

    async def record(self, *reasons: str) -> None:
        for reason in reasons:
            await self.queue.record(event(reason))


def event(reason: str) -> Event:
    return Event(
        api_version="model.kubedl.io/v1alpha1", kind="ModelVersion", namespace="default", name="mv", uid="u",
        type="Normal", reason=reason, message="as it says",
    )  # fmt: skip


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(event_queue, "LOOK_SECONDS", 0.001)
    world = World()
    async with beside(world.queue.run()):
        yield world


async def test_an_event_is_written_at_once_where_no_build_waits(world: World) -> None:
    await world.record("ImageBuilding")
    assert world.reasons == ["ImageBuilding"]


async def test_what_fails_at_once_is_told_to_who_records(world: World) -> None:
    world.failure = Unavailable("the API server does not answer")
    with pytest.raises(Unavailable):
        await world.record("ImageBuilding")


async def test_events_wait_while_builds_do_and_keep_their_order_and_times(world: World) -> None:
    world.busy = True
    before = datetime.now(UTC)
    await world.record("ImageBuilding", "ImageBuilt")
    after = datetime.now(UTC)
    await asyncio.sleep(0.02)
    assert world.reasons == []
    world.busy = False
    await world.record("Tracking")
    await until(lambda: len(world.written) == 3)
    assert world.reasons == ["ImageBuilding", "ImageBuilt", "Tracking"]
    assert all(before <= moment <= after for _, moment in world.written[:2])


async def test_none_waits_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "MOST_SECONDS", 0.01)
    world.busy = True
    await world.record("ImageBuilding")
    await until(lambda: world.reasons == ["ImageBuilding"])


async def test_what_is_refused_holds_up_no_other(world: World) -> None:
    world.busy, world.failure = True, Forbidden("no Events in this namespace")
    await world.record("ImageBuilding")
    world.busy = False
    await until(lambda: not world.queue.held)
    world.failure = None
    await world.record("ImageBuilt")
    assert world.reasons == ["ImageBuilt"]


async def test_an_error_that_nobody_has_thought_of_ends_nothing(world: World) -> None:
    world.busy, world.failure = True, ZeroDivisionError()
    await world.record("ImageBuilding")
    world.busy = False
    await until(lambda: not world.queue.held)
    world.failure, world.busy = None, True
    await world.record("ImageBuilt")
    world.busy = False
    await until(lambda: world.reasons == ["ImageBuilt"])


async def test_what_waited_is_kept_while_the_server_is_away(world: World) -> None:
    world.busy, world.failure = True, Unavailable("the API server does not answer")
    await world.record("ImageBuilding", "ImageBuilt")
    world.busy = False
    await until(lambda: world.tries > 2)
    world.failure = None
    await until(lambda: sorted(world.reasons) == ["ImageBuilding", "ImageBuilt"])


async def test_one_that_the_server_wants_to_have_later_holds_up_no_other(world: World) -> None:
    world.busy, world.refused = True, "ImageBuilding"
    await world.record("ImageBuilding", "ImageBuilt")
    world.busy = False
    await until(lambda: world.reasons == ["ImageBuilt"])
    world.refused = ""
    await until(lambda: world.reasons == ["ImageBuilt", "ImageBuilding"])


async def test_what_is_due_is_not_kept_for_a_server_that_stays_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_queue, "MOST_SECONDS", 0.01)
    world.busy, world.failure = True, Unavailable("the API server does not answer")
    await world.record("ImageBuilding")
    await until(lambda: not world.queue.held)
    assert world.reasons == []


async def test_no_more_are_held_than_there_is_room_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "MOST_HELD", 2)
    world.busy = True
    await world.record("First", "Second", "Third")
    assert world.reasons == ["Third"]


async def test_what_is_held_is_written_before_the_process_ends() -> None:
    world = World()
    world.busy = True
    async with beside(world.queue.run()):
        await world.record("ImageBuilding", "ImageBuilt")
    assert world.reasons == ["ImageBuilding", "ImageBuilt"]


async def test_many_that_are_held_are_written_side_by_side_before_the_process_ends() -> None:
    world = World()
    world.busy, reasons = True, [f"Reason{number}" for number in range(100)]
    async with beside(world.queue.run()):
        await world.record(*reasons)
    assert sorted(world.reasons) == sorted(reasons)


async def test_what_could_not_be_written_before_the_process_ends_is_said(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.busy, world.failure = True, Unavailable("the API server does not answer")
    async with beside(world.queue.run()):
        await world.record("ImageBuilding", "ImageBuilt")
    assert "2 Events that waited were not written" in caplog.text
