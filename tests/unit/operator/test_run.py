"""What runs together ends together, whatever ends it; and a loop in a thread is as good as one's own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from modelwright.operator.leadership import Alone, LoopThread
from modelwright.operator.run import first_to_end
from modelwright.ports.errors import Unavailable

pytestmark = pytest.mark.anyio


class Work:
    """Waits for ever, and remembers how it ended; a stubborn one passes over being cancelled once."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.began = asyncio.Event()
        self.free = asyncio.Event()
        self.ended = False
        self._stubborn = stubborn

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not self._stubborn:
                raise
            await self.free.wait()
        finally:
            self.ended = True


async def failing(after: asyncio.Event) -> None:
    await after.wait()
    raise Unavailable("this is why", reason="BecauseISaySo")


async def test_the_first_to_end_ends_the_others_and_says_why() -> None:
    other = Work()
    with pytest.raises(Unavailable, match="this is why"):
        await first_to_end(30.0, other.run(), failing(other.began))
    assert other.ended


async def test_whoever_is_cancelled_ends_all_of_them() -> None:
    works = Work(), Work()
    together = asyncio.create_task(first_to_end(30.0, *(work.run() for work in works)))
    for work in works:
        await work.began.wait()
    together.cancel()
    with pytest.raises(asyncio.CancelledError):
        await together
    assert all(work.ended for work in works)


async def test_one_that_does_not_end_is_not_waited_for_without_end() -> None:
    stubborn = Work(stubborn=True)
    with pytest.raises(Unavailable, match="this is why"):
        await first_to_end(0.01, stubborn.run(), failing(stubborn.began))
    assert not stubborn.ended
    stubborn.free.set()
    while not stubborn.ended:
        await asyncio.sleep(0)


async def test_work_in_a_thread_of_its_own_gives_its_result_and_its_errors() -> None:
    async def where() -> str:
        return threading.current_thread().name

    with LoopThread("elsewhere") as thread:
        assert await thread.run(where()) == "elsewhere"
        begun = asyncio.Event()
        begun.set()
        with pytest.raises(Unavailable, match="this is why"):
            await thread.run(failing(begun))
    assert "elsewhere" not in {each.name for each in threading.enumerate()}


async def test_who_is_cancelled_while_waiting_for_a_thread_cancels_the_work_there() -> None:
    began, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with LoopThread("elsewhere") as thread:
        waiting = asyncio.create_task(thread.run(endless()))
        await asyncio.to_thread(began.wait, 60)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await asyncio.to_thread(ended.wait, 60)


async def test_without_an_election_one_may_write_until_one_stops() -> None:
    alone = Alone()
    await alone.acquire()
    alone.check()
    await alone.release()
    with pytest.raises(Unavailable) as refused:
        alone.check()
    assert refused.value.reason == "LeadershipLost"
