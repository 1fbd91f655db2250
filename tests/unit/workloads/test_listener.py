"""Getting a listening socket back from a process that has it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwright.adapters.embedded.workloads.listener import ask

pytestmark = pytest.mark.anyio


@contextlib.contextmanager
def slow_holder(path: Path) -> Iterator[tuple[int, threading.Event, threading.Event]]:
    """Somebody who gives a listening socket away, and keeps none; its port, when it was asked, and its leave to."""
    asked, leave = threading.Event(), threading.Event()

    def give(offer: socket.socket, held: socket.socket) -> None:
        peer, _ = offer.accept()
        asked.set()
        leave.wait(30)
        with peer, held:
            socket.send_fds(peer, [b"1"], [held.fileno()])

    with socket.socket(socket.AF_UNIX) as offer, socket.create_server(("127.0.0.1", 0)) as held:
        offer.bind(str(path))
        offer.listen()
        port: int = held.getsockname()[1]
        thread = threading.Thread(target=give, args=(offer, held))
        thread.start()
        try:
            yield port, asked, leave
        finally:
            leave.set()
            thread.join()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


async def test_a_socket_that_is_asked_for_is_got(tmp_path: Path) -> None:
    with slow_holder(tmp_path / "s") as (port, _, leave):
        leave.set()
        found = await ask(tmp_path / "s")
    assert found is not None
    assert found.port == port
    assert listens(port)
    found.close()
    assert not listens(port)


async def test_a_socket_that_comes_when_nobody_waits_for_it_any_more_is_closed(tmp_path: Path) -> None:
    with slow_holder(tmp_path / "s") as (port, asked, leave):
        asking = asyncio.create_task(ask(tmp_path / "s"))
        await asyncio.to_thread(asked.wait, 30)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        leave.set()
    async with asyncio.timeout(30):
        while await asyncio.to_thread(listens, port):
            await asyncio.sleep(0.01)


async def test_who_does_not_answer_has_none(tmp_path: Path) -> None:
    assert await ask(tmp_path / "nobody") is None
