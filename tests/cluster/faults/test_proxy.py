"""What the fault proxy does to a client: the other tests believe it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import MOMENTS, Do, Drop, Fault, LoseLine, Moment, Refuse, SmallPages
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.proxy import FaultProxy

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient, Selection
from modelwright.adapters.kubernetes.kubeconfig import load_kubeconfig
from modelwright.adapters.kubernetes.resource import NAMESPACES, Resource
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.ports.errors import Conflict, NotFound, Unavailable

pytestmark = pytest.mark.anyio
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVERYWHERE = Resource("", "v1", "configmaps", "ConfigMap", namespaced=False)


@asynccontextmanager
async def through(plane: Plane, folder: Path, *faults: Fault) -> AsyncIterator[tuple[FaultProxy, KubernetesClient]]:
    async with FaultProxy(plane.url, plane.ca_file, folder) as proxy:
        proxy.faults = list(faults)
        async with KubernetesClient(load_kubeconfig([proxy.kubeconfig(plane.token)])) as client:
            yield proxy, client


def a_map(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def making(call: Call) -> bool:
    return call.write and call.resource == "configmaps"


async def exists(client: KubernetesClient, name: str) -> bool:
    try:
        await client.get(MAPS, "default", name)
    except NotFound:
        return False
    return True


async def test_it_knows_what_each_request_is_about(plane: Plane, tmp_path: Path) -> None:
    async with through(plane, tmp_path) as (proxy, client):
        await client.create(MAPS, "default", a_map("known"))
        await client.merge_patch(NAMESPACES, "", "default", {"status": {}}, subresource="status")
        await client.list(EVERYWHERE)
        await client.delete(MAPS, "default", "known")
    assert [str(call) for call in proxy.calls] == [
        "POST configmaps default/ 201",
        "PATCH namespaces/status /default 200",
        "GET configmaps / 200",
        "DELETE configmaps default/known 200",
    ]
    assert proxy.calls[0].document["metadata"] == {"name": "known"}
    assert [call.listing for call in proxy.calls] == [False, False, True, False]
    assert len(proxy.writes()) == 3


async def test_a_connection_dropped_before_is_nothing_done(plane: Plane, tmp_path: Path) -> None:
    async with through(plane, tmp_path, Drop(making, 1)) as (_, client):
        with pytest.raises(Unavailable):
            await client.create(MAPS, "default", a_map("dropped-before"))
        assert not await exists(client, "dropped-before")


async def test_a_connection_dropped_during_is_done_and_not_told(plane: Plane, tmp_path: Path) -> None:
    async with through(plane, tmp_path, Drop(making, 1, committed=True)) as (_, client):
        with pytest.raises(Unavailable):
            await client.create(MAPS, "default", a_map("dropped-during"))
        assert await exists(client, "dropped-during")


async def test_what_is_done_at_a_moment_is_done_at_that_moment(plane: Plane, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []

    def tell(moment: Moment) -> Fault:
        async def note(call: Call) -> None:
            told.append((moment, call.status))

        return Do(making, moment, note)

    faults = [tell(moment) for moment in MOMENTS]
    async with through(plane, tmp_path, *faults) as (_, client):
        await client.create(MAPS, "default", a_map("moments"))
    assert told == [("before", 0), ("during", 201), ("after", 201)]


async def test_refusals_are_worded_as_the_server_words_them(plane: Plane, tmp_path: Path) -> None:
    refuse = [Refuse(making, 409, 1), Refuse(making, 429, 1, retry_after=3), Refuse(making, 503, 1)]
    async with through(plane, tmp_path, *refuse) as (_, client):
        with pytest.raises(Conflict):
            await client.create(MAPS, "default", a_map("refused"))
        with pytest.raises(Unavailable) as limited:
            await client.create(MAPS, "default", a_map("refused"))
        with pytest.raises(Unavailable):
            await client.create(MAPS, "default", a_map("refused"))
        assert not await exists(client, "refused")
    assert (limited.value.reason, limited.value.after) == ("TooManyRequests", 3)


async def test_lists_come_in_pages_of_any_size(plane: Plane, tmp_path: Path) -> None:
    async with through(plane, tmp_path, SmallPages(1)) as (proxy, client):
        for name in ("page-1", "page-2", "page-3"):
            await client.create(MAPS, "default", a_map(name))
        found = {item["metadata"]["name"] for item in await client.list(MAPS)}
    assert {"page-1", "page-2", "page-3"} <= found
    assert sum(call.listing for call in proxy.calls) == len([call for call in proxy.calls if call.query.get("limit")])
    assert sum("continue" in call.query for call in proxy.calls) >= 2


async def test_a_line_of_a_watch_can_be_lost(plane: Plane, tmp_path: Path) -> None:
    async with through(plane, tmp_path, LoseLine(lambda _: True, b'"lost"', 1)) as (_, client):
        _, version = await client.list_bytes(MAPS)
        for name in ("lost", "kept"):
            await client.create(MAPS, "default", a_map(name))
        seen = b""
        async for line in watch_once(client, MAPS, version, Selection(namespace="default"), seconds=1):
            seen += bytes(line.object)
    assert b'"kept"' in seen
    assert b'"lost"' not in seen
