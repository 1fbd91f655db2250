"""What Pods at the edge are told and made to do as time goes on: an API server that refuses, and no other hand."""

from __future__ import annotations

import asyncio
from itertools import groupby
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kubernetes.waiting import beside, until
from tests.unit.kubernetes_servers.edge_support import (
    JSON,
    NODE,
    NOW,
    OWNER,
    READY,
    SETTINGS,
    a_model,
    at,
    condition,
    container,
)

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers import edge_bare, edge_notes
from modelwright.adapters.kubernetes.servers.edge_model import render
from modelwright.adapters.kubernetes.servers.edge_servers import EdgeServers
from modelwright.adapters.kubernetes.servers.mirrors import ServerMirrors
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Pod
from modelwright.adapters.kubernetes.workloads.mirror import Mirror
from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock
from modelwright.ports.errors import Forbidden
from modelwright.ports.workloads import Server, ServerStatus

pytestmark = pytest.mark.anyio
replace = msgspec.structs.replace
FULL = "exceeded quota: q, requested: limits.memory=5Gi, used: limits.memory=1Gi, limited: limits.memory=4Gi"
UPGRADED = replace(SETTINGS, agent_image="hub.example/modelwright:2")


class Refusing:
    """Lets no new Pod in."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(self, resource: object, namespace: str, body: JSON, **_: object) -> JSON:
        await asyncio.sleep(0)
        self.asked.append(body["metadata"]["name"].removesuffix("-try"))
        raise Forbidden(FULL)

    async def get(self, resource: object, namespace: str, name: str) -> JSON:
        await asyncio.sleep(0)
        return {"spec": {"containers": []}}


class Stage:
    """`seen` is how each server was whenever its owner was told; then it is applied again, as the engine does."""

    def __init__(self, settings: ServerSettings) -> None:
        self.client = Refusing()
        api = cast("KubernetesClient", self.client)
        self.pods = Mirror(api, PODS, Pod, self._changed)
        nodes = SimpleNamespace(get=lambda name: NODE if name == NODE.name else None, all=lambda: [NODE])
        mirrors = cast("ServerMirrors", SimpleNamespace(pods=self.pods, nodes=nodes, filled=self._filled))
        children = cast("Any", None)
        self.part = EdgeServers(Place(api, settings, mirrors, children, self._changed, ServerClock()))
        self.servers: dict[str, Server] = {}
        self.seen: dict[str, list[ServerStatus | None]] = {}
        self._told: asyncio.Queue[str] = asyncio.Queue()

    def add(self, number: int) -> Server:
        owner = replace(OWNER, uid=f"uid-{number}", name=f"m{number}")
        server = replace(a_model(port=8500 + number), owner=owner, name=f"m{number}-serve")
        self.servers[owner.uid], self.seen[owner.uid] = server, []
        return server

    def status(self, uid: str) -> ServerStatus | None:
        server = self.servers[uid]
        return self.part.status(server.owner, server.name)

    async def run(self) -> None:
        for server in self.servers.values():
            await self.part.apply(server)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.part.run())
            group.create_task(self._own())

    async def _own(self) -> None:
        while True:
            uid = await self._told.get()
            await self.part.apply(self.servers[uid])

    def _changed(self, uid: str) -> None:
        status = self.status(uid)
        if not self.seen[uid] or self.seen[uid][-1] != status:
            self.seen[uid].append(status)
            self._told.put_nowait(uid)

    async def _filled(self) -> None:
        return


def a_pod(server: Server, *, node: str = NODE.name, age: float = 60, version: int = 5, **status: Any) -> Pod:
    body = render(server, NODE.name, SETTINGS).body
    metadata = {**body["metadata"], "uid": f"pod-{server.name}", "resourceVersion": str(version)}
    metadata["creationTimestamp"] = at(age)
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


def serving(server: Server) -> Pod:
    there = [{**container(name, ready=True, running={}), "imageID": "a@sha256:1"} for name in ("keeper", "server")]
    return a_pod(server, phase="Running", containerStatuses=there, conditions=READY)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_bare, "TICK_SECONDS", 0.002)
    monkeypatch.setattr(edge_notes, "FIRST_PAUSE", 0.004)
    monkeypatch.setattr(edge_notes, "LAST_PAUSE", 0.01)


async def test_an_upgrade_that_is_refused_is_told_once_and_not_by_turns_with_that_it_waits() -> None:
    stage = Stage(UPGRADED)
    for number in range(3):
        stage.pods.wrote(serving(stage.add(number)))
    async with beside(stage.run()):
        await until(lambda: all(stage.client.asked.count(each.name) >= 8 for each in stage.servers.values()))
    for uid, seen in stage.seen.items():
        reasons = [reason for reason, _ in groupby(map(reason_of, seen))]
        assert reasons in (["QuotaExceeded"], ["", "QuotaExceeded"]), (uid, reasons)


async def test_that_no_node_takes_it_is_told_although_nothing_changes_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(SETTINGS)
    server = stage.add(0)
    unscheduled = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: insufficient memory")
    stage.pods.wrote(a_pod(server, node="", age=0, phase="Pending", conditions=[unscheduled]))
    now = NOW
    monkeypatch.setattr(ServerClock, "now", lambda _: now)
    uid = server.owner.uid
    async with beside(stage.run()):
        await until(lambda: bool(stage.seen[uid]))
        assert reason_of(stage.seen[uid][-1]) == ""
        now = NOW.replace(minute=1)
        await until(lambda: reason_of(stage.seen[uid][-1]) == "Unschedulable")


def reason_of(status: ServerStatus | None) -> str:
    return status.failure.reason if status is not None and status.failure is not None else ""
