"""Every way in which a watch or a list can break, told apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.servers import Asked, answer, asked, chunked, listening, refused

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import EVERYTHING, KubernetesClient
from modelwright.adapters.kubernetes.resource import of_kind
from modelwright.adapters.kubernetes.store import KubernetesStore
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.api.kinds import MODEL
from modelwright.api.model import Model
from modelwright.ports.errors import Expired, Forbidden, ModelwrightError, Unavailable
from modelwright.ports.store import Change

pytestmark = pytest.mark.anyio
MODELS = of_kind(MODEL)


@asynccontextmanager
async def serving(reply: Callable[[Asked, int], bytes]) -> AsyncIterator[tuple[KubernetesClient, list[Asked]]]:
    """A client of a server that answers the n-th request with `reply(request, n)` and then closes."""
    requests: list[Asked] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await asked(reader)
        if request is not None:
            requests.append(request)
            writer.write(reply(request, len(requests)))
            await writer.drain()

    async with (
        listening(talk) as port,
        KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="t")) as client,
    ):
        yield client, requests


def client_of(port: int) -> KubernetesClient:
    return KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="a test"))


def line(type_: str, version: str, **more: Any) -> bytes:
    metadata = {"name": "resnet", "namespace": "a", "uid": "u", "resourceVersion": version}
    body = {"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model", "metadata": metadata, **more}
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


def gone() -> bytes:
    return json.dumps({"type": "ERROR", "object": refused(410, "Expired", "too old resource version")}).encode() + b"\n"


async def lines(client: KubernetesClient, seconds: int = 60, grace: float = 60) -> list[tuple[str, str]]:
    watching = watch_once(client, MODELS, "5", EVERYTHING, seconds=seconds, grace=grace)
    async with aclosing(watching) as changes:
        return [(change.type, _version(change.object)) async for change in changes]


def _version(data: msgspec.Raw) -> str:
    return str(json.loads(bytes(data))["metadata"]["resourceVersion"])


async def test_changes_arrive_whole_however_the_bytes_are_cut() -> None:
    data = line("ADDED", "6") + b"\n" + line("MODIFIED", "7") + line("BOOKMARK", "9")
    for size in (1, 7, 64, len(data)):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        async with serving(lambda _request, _n, pieces=pieces: chunked(*pieces)) as (client, requests):  # type: ignore[misc]
            assert await lines(client) == [("ADDED", "6"), ("MODIFIED", "7"), ("BOOKMARK", "9")]
    assert "resourceVersion=5" in requests[0].target
    assert "allowWatchBookmarks=true" in requests[0].target
    assert "timeoutSeconds=60" in requests[0].target


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (chunked(gone()), Expired),
        (answer(refused(410, "Gone"), 410), Expired),
        (answer(refused(410, "Expired"), 410), Expired),
        (answer(refused(403, "Forbidden"), 403), Forbidden),
        (answer(refused(429, "TooManyRequests"), 429, Retry_After="3"), Unavailable),
        (answer("<html>bad gateway</html>", 502), Unavailable),
        (chunked(b"what?\n"), Unavailable),
        (chunked(line("ADDED", "6"), b'{"type":', end=False), Unavailable),
        (chunked(json.dumps({"type": "ERROR", "object": refused(504, "Timeout")}).encode() + b"\n"), Unavailable),
    ],
)
async def test_each_way_to_end_is_its_own_error(reply: bytes, error: type[ModelwrightError]) -> None:
    async with serving(lambda _request, _n: reply) as (client, _):
        with pytest.raises(error) as ended:
            await lines(client)
    if b"Retry-After" in reply:
        assert getattr(ended.value, "after", None) == 3.0


async def test_changes_before_an_error_are_not_lost() -> None:
    async with serving(lambda _request, _n: chunked(line("ADDED", "6"), gone())) as (client, _):
        watching = watch_once(client, MODELS, "5", EVERYTHING, seconds=60)
        assert (await anext(watching)).type == "ADDED"
        with pytest.raises(Expired):
            await anext(watching)


async def test_a_peer_that_is_gone_without_a_word_is_found_out() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asked(reader)
        writer.write(chunked(line("ADDED", "6"), end=False))
        await reader.read()

    async with (
        listening(talk) as port,
        KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="t")) as client,
    ):
        with pytest.raises(Unavailable) as silent:
            await lines(client, seconds=0, grace=0.3)
    assert silent.value.reason == "TimedOut"


async def test_a_watch_that_ends_in_good_order_goes_on_from_what_it_saw() -> None:
    def reply(_request: Asked, number: int) -> bytes:
        return [chunked(line("ADDED", "6"), line("BOOKMARK", "8")), chunked(), chunked(line("DELETED", "9"))][
            number - 1
        ]

    seen: list[Change[Model]] = []
    async with serving(reply) as (client, requests), aclosing(KubernetesStore(client).watch(Model, "5")) as changes:
        async for change in changes:
            seen.append(change)
            if change.type == "DELETED":
                break
    assert [(change.type, change.version) for change in seen] == [("ADDED", "6"), ("BOOKMARK", "8"), ("DELETED", "9")]
    versions = [request.target.partition("resourceVersion=")[2].partition("&")[0] for request in requests]
    assert versions == ["5", "8", "8"]


async def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    bad = line("ADDED", "6", spec={"description": 5})
    reply = chunked(bad, line("ADDED", "7"))
    async with (
        serving(lambda _request, _n: reply) as (client, _),
        aclosing(KubernetesStore(client).watch(Model, "5")) as changes,
    ):
        first, second = await anext(changes), await anext(changes)
    assert (first.version, first.resource, first.unreadable is None) == ("6", None, False)
    assert second.version == "7" and second.resource is not None


# Lists --------------------------------------------------------------------------------------------------------------


def page(*versions: str, token: str = "") -> bytes:
    items = [json.loads(line("", version))["object"] for version in versions]
    return answer({"kind": "ModelList", "metadata": {"resourceVersion": "9", "continue": token}, "items": items})


async def test_a_list_that_expires_halfway_is_begun_again() -> None:
    def reply(_request: Asked, number: int) -> bytes:
        return [page("1", token="a b"), answer(refused(410, "Expired"), 410), page("1", token="c"), page("2")][
            number - 1
        ]

    async with serving(reply) as (client, requests):
        listing = await KubernetesStore(client).list(Model)
    assert [item.metadata.resource_version for item in listing.items] == ["1", "2"]
    assert listing.version == "9"
    assert ["continue=" in request.target for request in requests] == [False, True, False, True]


async def test_a_list_that_expires_again_and_again_is_asked_for_in_one_piece() -> None:
    def reply(request: Asked, _number: int) -> bytes:
        if "continue=" in request.target:
            return answer(refused(410, "Expired"), 410)
        return page("1", token="" if "limit=0" in request.target else "more")

    async with serving(reply) as (client, _):
        listing = await KubernetesStore(client).list(Model)
    assert [item.metadata.resource_version for item in listing.items] == ["1"]


async def test_a_list_without_items_is_empty() -> None:
    empty = answer({"kind": "ModelList", "metadata": {"resourceVersion": "9"}, "items": None})
    async with serving(lambda _request, _n: empty) as (client, _):
        assert (await KubernetesStore(client).list(Model)).items == ()


async def test_an_answer_that_is_no_list_is_unavailable() -> None:
    async with serving(lambda _request, _n: answer("hello")) as (client, _):
        with pytest.raises(Unavailable) as bad:
            await KubernetesStore(client).list(Model)
    assert bad.value.reason == "BadAnswer"
