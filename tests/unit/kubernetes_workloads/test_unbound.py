"""A claim that is not bound keeps its build from a Job, and after a while that is told, although nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.kubernetes.servers import Asked, answer, asked, listening, refused
from tests.unit.kubernetes_workloads.support import a_task, stored

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.render_volume import claim, volume
from modelwright.ports.workloads import Failure, Nfs, TaskStatus

pytestmark = pytest.mark.anyio
DEADLINE = 30.0
NFS = Nfs("nas.example.com", "/models")
TASK = a_task(NFS)


@asynccontextmanager
async def unbound(created: datetime) -> AsyncIterator[tuple[KubernetesWorkloads, list[str]]]:
    """Workloads of a server that holds volume and claim of TASK and never binds them; what was asked for by POST."""
    items = {
        "persistentvolumeclaims": [stored(claim(TASK, NFS), "c", 5, created, phase="Pending")],
        "persistentvolumes": [stored(volume(TASK, NFS, "c"), "v", 5, created, phase="Available")],
    }
    posted: list[str] = []
    end = asyncio.Event()

    async def reply(request: Asked) -> bytes:
        target = urlsplit(request.target)
        if request.method == "POST":
            posted.append(target.path)
            return answer(refused(500, "InternalError"), 500)
        if "watch" in parse_qs(target.query):
            await end.wait()
        return answer({"metadata": {"resourceVersion": "9"}, "items": items.get(target.path.rpartition("/")[2], [])})

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await asked(reader)) is not None:
            writer.write(await reply(request))
            await writer.drain()

    async with (
        listening(talk) as port,
        KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="a test")) as client,
        KubernetesWorkloads(client, JobSettings(agent_image="a")) as workloads,
    ):
        yield workloads, posted


async def test_a_claim_that_is_never_bound_is_told_without_any_event_and_gets_no_job() -> None:
    async with unbound(datetime.now(UTC) - timedelta(seconds=58)) as (workloads, posted), asyncio.timeout(DEADLINE):
        changes = workloads.changes()
        await workloads.apply(TASK)
        while (failure := await told(workloads)) is None:
            assert await anext(changes) == TASK.owner
        assert failure.reason == "VolumeNotBound"
        assert posted == []


async def test_a_claim_that_is_never_bound_holds_up_nothing_else_however_often_it_is_tried() -> None:
    async with unbound(datetime.now(UTC)) as (workloads, _), asyncio.timeout(DEADLINE):
        await workloads.apply(TASK)
        assert not workloads.busy()


async def told(workloads: KubernetesWorkloads) -> Failure | None:
    (status,) = await workloads.observe(TASK.owner.uid)
    assert isinstance(status, TaskStatus)
    assert status.phase == "Pending"
    return status.failure
