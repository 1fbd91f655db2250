"""A guard stands right before each request that could change something; what is read passes it by."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.kubernetes.servers import answer, asked, listening

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.resource import EVENTS
from modelwright.ports.errors import Unavailable

pytestmark = pytest.mark.anyio


class Door:
    """A guard that a test opens and shuts."""

    def __init__(self) -> None:
        self.shut = False
        self.passed = 0

    def __call__(self) -> None:
        if self.shut:
            raise Unavailable("not the leader any more", reason="LeadershipLost")
        self.passed += 1


class Server:
    """Answers everything with an empty object, and remembers the methods."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await asked(reader):
            self.methods.append(request.method)
            writer.write(answer({}))


def access(port: int) -> Access:
    return Access(server=f"http://127.0.0.1:{port}", source="a test")


async def test_every_kind_of_write_asks_the_guard_first_and_no_read_does() -> None:
    server, door = Server(), Door()
    async with listening(server.talk) as port, KubernetesClient(access(port), guard=door) as client:
        await client.get(EVENTS, "a", "b")
        assert door.passed == 0
        await client.create(EVENTS, "a", {})
        await client.replace(EVENTS, "a", "b", {})
        await client.merge_patch(EVENTS, "a", "b", {})
        await client.json_patch(EVENTS, "a", "b", [])
        await client.apply(EVENTS, "a", "b", {})
        await client.delete(EVENTS, "a", "b")
        assert door.passed == len(server.methods) - 1 == 6


async def test_what_the_guard_refuses_is_not_sent_and_what_is_read_still_is() -> None:
    server, door = Server(), Door()
    async with listening(server.talk) as port, KubernetesClient(access(port), guard=door) as client:
        await client.create(EVENTS, "a", {})
        door.shut = True
        with pytest.raises(Unavailable) as refused:
            await client.create(EVENTS, "a", {})
        assert refused.value.reason == "LeadershipLost"
        await client.get(EVENTS, "a", "b")
    assert server.methods == ["POST", "GET"]


async def test_the_guard_is_asked_once_the_connection_is_open_however_long_that_took() -> None:
    door, tunnelled = Door(), bytearray()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        door.shut = True
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        tunnelled.extend(await reader.read())

    async with listening(proxy) as port:
        through = Access(server="http://127.0.0.1:1", source="a test", proxy_url=f"http://127.0.0.1:{port}")
        async with KubernetesClient(through, guard=door) as client:
            with pytest.raises(Unavailable, match="not the leader"):
                await client.create(EVENTS, "a", {})
    assert tunnelled == b""


async def test_answers_are_told_by_method_and_status() -> None:
    told: list[tuple[str, int]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await asked(reader):
            writer.write(answer({}, 200 if request.method == "GET" else 500))

    async with (
        listening(talk) as port,
        KubernetesClient(access(port), answered=lambda *each: told.append(each)) as client,
    ):
        await client.get(EVENTS, "a", "b")
        with pytest.raises(Unavailable):
            await client.create(EVENTS, "a", {})
        async with client.stream("/x"):
            pass
    assert told == [("GET", 200), ("POST", 500), ("GET", 200)]
