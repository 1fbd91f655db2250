"""Servers inside a running loop: real sockets, in good order."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx2
import pytest
from tests.unit.embedded.api import MODELS, TOKEN

from modelwright.adapters.embedded.apiserver.app import create_api_app
from modelwright.adapters.embedded.apiserver.asgi import Receive, Scope, Send
from modelwright.adapters.embedded.apiserver.hosts import LoopbackOnly
from modelwright.adapters.embedded.apiserver.listener import Listener, Tls, listen
from modelwright.adapters.embedded.certificates import credentials
from modelwright.adapters.embedded.store import EmbeddedStore

pytestmark = pytest.mark.anyio


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_plain_and_tls_listeners_serve_side_by_side_on_free_ports(tmp_path: Path) -> None:
    found = credentials(tmp_path)
    plain = Listener(LoopbackOnly(hello), listen("127.0.0.1", 0))
    tls = Listener(LoopbackOnly(hello), listen("127.0.0.1", 0), tls=Tls(found.certificate, found.key))
    await plain.start()
    await tls.start()
    import ssl

    trusting = ssl.create_default_context(cafile=str(found.ca))
    async with httpx2.AsyncClient(verify=trusting, trust_env=False) as client:
        for url in (f"http://127.0.0.1:{plain.port}/", f"https://localhost:{tls.port}/"):
            answer = await client.get(url)
            assert (answer.status_code, answer.text) == (200, "hello")
            assert "server" not in answer.headers
        foreign = await client.get(f"http://127.0.0.1:{plain.port}/", headers={"host": "evil.example"})
        assert foreign.status_code == 403
    await asyncio.gather(plain.stop(), tls.stop())
    await plain.wait()


async def test_a_taken_port_is_an_error_of_the_one_who_asks() -> None:
    first = listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", first.getsockname()[1])
    first.close()


async def test_signals_stay_with_the_process() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    listener = Listener(hello, listen("127.0.0.1", 0))
    await listener.start()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    await listener.stop()


async def test_stopping_lets_a_request_end(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await hello(scope, receive, send)

    listener = Listener(slow, listen("127.0.0.1", 0), grace=30)
    await listener.start()
    async with httpx2.AsyncClient(trust_env=False) as client:
        asking = asyncio.create_task(client.get(f"http://127.0.0.1:{listener.port}/"))
        await begun.wait()
        stopping = asyncio.create_task(listener.stop())
        go_on.set()
        assert (await asking).text == "hello"
        await stopping


async def test_an_open_watch_does_not_hold_up_the_end(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path)
    listener = Listener(create_api_app(store.resources, TOKEN), listen("127.0.0.1", 0), grace=30)
    await listener.start()
    url = f"http://127.0.0.1:{listener.port}{MODELS}?watch=true"
    async with (
        httpx2.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {TOKEN}"}) as client,
        client.stream("GET", url) as watch,
    ):
        assert watch.status_code == 200
        await store.close()
        await asyncio.wait_for(listener.stop(), 30)
        assert [line async for line in watch.aiter_lines()] == []
