"""Processes, sockets and the small programs, each alone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from modelwright.adapters.embedded.workloads.cache import ModelCache, Report, key_of
from modelwright.adapters.embedded.workloads.changes import Changes
from modelwright.adapters.embedded.workloads.listener import ask, reserve
from modelwright.adapters.embedded.workloads.memory import Table
from modelwright.adapters.embedded.workloads.process import (
    NONCE,
    Process,
    Stat,
    carrying,
    identify,
    is_alive,
    new_nonce,
    spawn,
    sweep,
)
from modelwright.adapters.embedded.workloads.sampler import MemorySampler
from modelwright.adapters.embedded.workloads.timing import Timing
from modelwright.http.handover import serve_handover
from modelwright.ports.errors import Forbidden, Unavailable
from modelwright.ports.workloads import Download, ModelImage, ModelSource, Owner

pytestmark = pytest.mark.anyio
DEADLINE = 30.0
SLEEP = (sys.executable, "-S", "-c", "import time; time.sleep(600)")


async def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        await asyncio.sleep(0.01)


# Processes ----------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_process_is_told_with_its_code() -> None:
    ended = asyncio.Event()
    identity = spawn([sys.executable, "-S", "-c", "raise SystemExit(7)"], env=dict(os.environ))
    process = Process(identity, "nonce", ended.set)
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert (process.exited, process.exit_code) == (True, 7)
    assert not is_alive(identity)


async def test_a_signal_is_a_negative_code_and_signalling_the_dead_is_no_error() -> None:
    ended = asyncio.Event()
    process = Process(spawn(SLEEP, env=dict(os.environ)), "nonce", ended.set)
    process.signal(signal.SIGTERM)
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert process.exit_code == -signal.SIGTERM
    process.signal(signal.SIGKILL)


async def test_a_number_that_belongs_to_another_process_is_as_good_as_dead() -> None:
    mine = identify(os.getpid())
    assert mine
    assert is_alive(mine)
    for other in (
        msgspec.structs.replace(mine, started="1"),
        msgspec.structs.replace(mine, boot="another"),
        msgspec.structs.replace(mine, pid=2**22 + 1),
    ):
        assert not is_alive(other)
    ended = asyncio.Event()
    process = Process(msgspec.structs.replace(mine, started="1"), "nonce", ended.set)
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert process.exit_code is None
    sweep(msgspec.structs.replace(mine, started="1"), "no such nonce")


async def test_what_a_process_left_behind_is_found_by_its_nonce() -> None:
    nonce = new_nonce("test")
    script = "import os, time; os.fork() or os.setsid() or time.sleep(600)"
    ended = asyncio.Event()
    identity = spawn([sys.executable, "-S", "-c", script], env={**os.environ, NONCE: nonce})
    process = Process(identity, nonce, ended.set)
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert process.exit_code == 0
    await until(lambda: list(carrying(nonce)), "the child")
    sweep(identity, nonce)
    await until(lambda: not list(carrying(nonce)), "its end")


async def test_memory_is_summed_and_limited() -> None:
    ended = asyncio.Event()
    used: list[int] = []
    script = "import time; x = bytearray(64 << 20); time.sleep(600)"
    identity = spawn([sys.executable, "-S", "-c", script], env=dict(os.environ))
    process = Process(identity, new_nonce("test"), ended.set)
    await until(lambda: Table.look().of_session(identity.pid) > 64 << 20, "the memory")
    sampler = MemorySampler(0.01)
    sampler.limit(identity.pid, 32 << 20, used.append)
    await until(lambda: used, "the sample")
    sampler.limit(identity.pid, 1 << 40, used.append)
    process.kill_all()
    await asyncio.wait_for(ended.wait(), DEADLINE)
    assert len(used) == 1
    assert used[0] > 64 << 20
    sampler.close()


def a_stat(parent: int, group: int, rss: int, session: int = 10) -> Stat:
    return Stat(alive=True, parent=parent, group=group, session=session, started="1", rss=rss)


def test_each_worker_answers_for_its_group_and_for_what_descends_from_it() -> None:
    table = Table(
        {
            10: a_stat(1, 10, 1),  # the runner
            11: a_stat(10, 11, 10),  # a worker
            12: a_stat(11, 12, 100, session=12),  # its child in a session of its own
            13: a_stat(10, 11, 1000),  # what its child has left in its group
            14: a_stat(10, 14, 10000),  # another worker
            15: a_stat(1, 11, 100000, session=15),  # a group of that number elsewhere
        }
    )
    assert (table.of_worker(11, 10), table.of_worker(14, 10)) == (1110, 10000)
    assert (table.below(10), table.of_session(10), table.of_session(12)) == (11110, 11011, 100)
    assert table.of_worker(99, 10) == table.below(99) == 0


# Sockets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 12])
async def test_a_listening_socket_is_handed_over_however_long_the_path(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a-rather-long-name"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "handover.sock"
    listener = reserve("127.0.0.1", 0)
    listener.listen()
    offering = asyncio.create_task(serve_handover(path, listener.sock))
    await until(path.exists, "the offer")
    for _ in range(2):
        received = await ask(path)
        assert received
        assert received.port == listener.port
        assert not os.get_inheritable(received.sock.fileno())
        with socket.create_connection(("127.0.0.1", listener.port)):
            peer, _ = await asyncio.get_running_loop().sock_accept(received.sock)
            peer.close()
        received.close()
    offering.cancel()
    await asyncio.wait([offering])
    assert not path.exists()
    assert await ask(path) is None
    listener.close()


async def test_a_port_without_a_listener_is_kept_and_refuses() -> None:
    kept = reserve("127.0.0.1", 0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", kept.port)).close()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", kept.port))
    kept.listen()
    with pytest.raises(Unavailable) as taken:
        reserve("127.0.0.1", kept.port)
    assert taken.value.reason == "PortTaken"
    elsewhere = reserve("127.0.0.1", 0, remembered=kept.port)
    assert elsewhere.port != kept.port
    elsewhere.close()
    kept.close()


# News ---------------------------------------------------------------------------------------------------------------


async def test_bursts_are_merged_and_each_listener_hears_all() -> None:
    changes = Changes()
    one, two = changes.subscribe(), changes.subscribe()
    owners = [Owner(api_version="v1", kind="K", namespace="n", name=name, uid=name) for name in "ab"]
    for _ in range(3):
        for owner in owners:
            changes.notify(owner)
    changes.close()
    assert [owner async for owner in one] == owners
    assert [owner async for owner in two] == owners
    assert [owner async for owner in changes.subscribe()] == []


# Models -------------------------------------------------------------------------------------------------------------

SOURCE = Download("http://x/model", "AB" * 32)


async def test_a_model_is_obtained_once_tried_again_and_removed(tmp_path: Path) -> None:
    calls: list[str] = []

    async def obtain(source: ModelSource, namespace: str, folder: Path, report: Report) -> str:
        calls.append(namespace)
        if len(calls) == 1:
            raise Unavailable("not now")
        if len(calls) == 2:
            raise Forbidden("not you")
        folder.joinpath("model").mkdir(parents=True)
        return "sha256:ab"

    timing = Timing(backoff_first=0.01, backoff_cap=0.01, fetch_retry_cap=0.02)
    cache = ModelCache(tmp_path, obtain, timing, lambda: None)
    held = cache.look(SOURCE, "default")
    assert cache.look(SOURCE, "other") is held
    while not held.ready:
        await asyncio.wait_for(cache.changed(), DEADLINE)
    assert (len(calls), held.failure, held.path.is_dir(), held.digest) == (3, None, True, "sha256:ab")
    cache.keep_only([key_of(SOURCE, "default")])
    assert held.path.is_dir()
    cache.keep_only([])
    assert not held.folder.exists()
    cache.close()


def test_keys_follow_content_where_it_is_known() -> None:
    key = key_of(SOURCE, "a")
    assert key == key_of(Download("http://y/other/model?x=1", "ab" * 32), "b")
    assert key.startswith(f"file-{'ab' * 32}-")
    assert key != key_of(Download("http://x/another", "ab" * 32), "a")
    image = ModelImage("127.0.0.1:5000/hub/m@sha256:" + "cd" * 32)
    assert key_of(image, "a") == f"image-sha256-{'cd' * 32}"
    unknown = Download("http://x/model")
    keys = {key_of(unknown, "a"), key_of(unknown, "b"), key_of(Download("http://x/model", secret="s"), "a")}
    assert len(keys) == 3


async def test_a_model_that_is_doubted_is_verified_before_it_is_used_again(tmp_path: Path) -> None:
    calls: list[Path] = []
    go = asyncio.Event()

    async def obtain(source: ModelSource, namespace: str, folder: Path, report: Report) -> str:
        calls.append(folder)
        if len(calls) > 1:
            await go.wait()
        return ""

    cache = ModelCache(tmp_path, obtain, Timing(), lambda: None)
    image = ModelImage("127.0.0.1:5000/hub/m@sha256:" + "cd" * 32)
    held = cache.look(image, "default")
    await until(lambda: held.ready, "the model")
    cache.doubt("another")
    cache.doubt(key_of(image, "default"))
    assert not held.ready
    assert cache.look(image, "default", anew=True) is held
    go.set()
    await until(lambda: held.ready, "the model again")
    assert calls == [cache.path(key_of(image, "default")).parent] * 2
    cache.close()


async def test_a_failed_fetch_is_begun_at_once_for_who_asks_anew(tmp_path: Path) -> None:
    calls: list[str] = []

    async def obtain(source: ModelSource, namespace: str, folder: Path, report: Report) -> str:
        calls.append(namespace)
        if len(calls) == 1:
            raise Forbidden("not you")
        return "sha256:cd"

    cache = ModelCache(tmp_path, obtain, Timing(fetch_retry_cap=600.0), lambda: None)
    held = cache.look(SOURCE, "default")
    await until(lambda: held.failure, "the failure")
    assert cache.look(SOURCE, "default").failure
    assert cache.look(SOURCE, "default", anew=True).failure is None
    await until(lambda: held.ready, "the model")
    cache.close()
