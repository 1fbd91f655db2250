"""The queue of keys."""

from __future__ import annotations

import asyncio

import pytest

from modelwright.engine.queue import KeyedQueue

pytestmark = pytest.mark.anyio


async def test_a_key_that_is_added_twice_comes_once() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_during_its_work_comes_back_once_that_is_done() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"


async def test_no_two_workers_ever_hold_the_same_key() -> None:
    queue: KeyedQueue[int] = KeyedQueue()
    held: set[int] = set()
    worked: list[int] = []

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in held
            held.add(key)
            await asyncio.sleep(0)
            worked.append(key)
            held.discard(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    for number in range(200):
        queue.add(number % 5)
        await asyncio.sleep(0)
    while not queue.idle:
        await asyncio.sleep(0)
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    assert set(worked) == set(range(5))


async def test_a_key_for_later_comes_when_it_is_due() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    loop = asyncio.get_running_loop()
    began = loop.time()
    queue.add_after("later", 0.05)
    queue.add("now")
    assert await queue.get() == "now"
    assert await queue.get() == "later"
    assert loop.time() - began >= 0.05


async def test_a_key_that_is_asked_for_sooner_comes_sooner_and_once() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("a", 30)
    queue.add_after("a", 0.01)
    assert await asyncio.wait_for(queue.get(), 10) == "a"
    queue.done("a")
    queue.add_after("b", 30)
    queue.add("b")
    assert await asyncio.wait_for(queue.get(), 10) == "b"
    queue.done("b")
    assert queue.idle


async def test_a_forgotten_key_does_not_come() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_after("gone", 0.01)
    queue.forget("gone")
    queue.add_after("there", 0.05)
    assert await queue.get() == "there"


async def test_a_worker_that_is_woken_and_cancelled_in_one_breath_ends() -> None:
    """It would else hold up the end of the whole program."""
    queue: KeyedQueue[str] = KeyedQueue()

    async def work() -> None:
        while True:
            queue.done(await queue.get())

    worker = asyncio.create_task(work())
    queue.add_after("later", 1000)
    await asyncio.sleep(0.05)
    queue.add("now")
    worker.cancel()
    done, _ = await asyncio.wait([worker], timeout=20)
    assert done == {worker}
    assert worker.cancelled()
