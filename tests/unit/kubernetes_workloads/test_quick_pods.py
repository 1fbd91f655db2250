"""A Pod can be done before the API server's answer to the creation of its Job is read: its end is told all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.unit.kubernetes.servers import Asked, answer, asked, chunked, listening
from tests.unit.kubernetes_workloads.support import JSON, RESULT, SETTINGS, a_task, stored, terminated

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.labels import labels
from modelwright.adapters.kubernetes.workloads.render_job import job
from modelwright.adapters.kubernetes.workloads.render_volume import claim, volume
from modelwright.ports.job import Report
from modelwright.ports.workloads import BuildImage, Nfs, TaskStatus

pytestmark = pytest.mark.anyio
DEADLINE = 30.0
NFS = Nfs("nas.example.com", "/models")
TASK = a_task(NFS)
assert isinstance(TASK.action, BuildImage)
THE_JOB = job(TASK, TASK.action, SETTINGS)
JOB = "the-job"


def done_pod(version: int) -> JSON:
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": TASK.name, "uid": JOB, "controller": True}
    metadata = {
        "name": f"{TASK.name}-x",
        "namespace": TASK.owner.namespace,
        "labels": {**labels(TASK.owner), "batch.kubernetes.io/job-name": TASK.name},
        "ownerReferences": [controller],
    }
    ended = [terminated(message=Report(result=RESULT))]
    return stored({"metadata": metadata, "spec": {}}, "p", version, phase="Succeeded", containerStatuses=ended)


class Cluster:
    """Binds TASK's claim when it is watched, and answers the creation of the Job after its Pod has been told of."""

    def __init__(self) -> None:
        pending = stored(claim(TASK, NFS), "c", 5, phase="Pending")
        self.items = {
            "persistentvolumeclaims": [pending],
            "persistentvolumes": [stored(volume(TASK, NFS, "c"), "v", 5, phase="Available")],
        }
        self.bind = asyncio.Event()
        self._created = asyncio.Event()
        self._pod_told = asyncio.Event()
        self._watched: set[str] = set()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await asked(reader)) is not None:
            writer.write(await self._reply(request))
            await writer.drain()

    async def _reply(self, request: Asked) -> bytes:
        target = urlsplit(request.target)
        kind = target.path.rpartition("/")[2]
        if request.method == "POST":
            self._created.set()
            await self._pod_told.wait()
            return answer(stored(THE_JOB, JOB, 10), 201)
        if "watch" in parse_qs(target.query):
            return chunked(msgspec.json.encode(await self._change(kind)) + b"\n")
        return answer({"metadata": {"resourceVersion": "9"}, "items": self.items.get(kind, [])})

    async def _change(self, kind: str) -> JSON:
        """The first change of each kind that has one; who asks again has taken it in."""
        if kind == "persistentvolumeclaims" and kind not in self._watched:
            self._watched.add(kind)
            await self.bind.wait()
            return {"type": "MODIFIED", "object": stored(claim(TASK, NFS), "c", 11, phase="Bound")}
        if kind == "pods" and kind not in self._watched:
            self._watched.add(kind)
            await self._created.wait()
            return {"type": "ADDED", "object": done_pod(12)}
        if kind == "pods":
            self._pod_told.set()
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def running() -> AsyncIterator[tuple[KubernetesWorkloads, Cluster]]:
    cluster = Cluster()
    async with (
        listening(cluster.talk) as port,
        KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="a test")) as client,
        KubernetesWorkloads(client, SETTINGS) as workloads,
    ):
        yield workloads, cluster


async def test_a_pod_that_is_done_before_its_job_is_known_is_told() -> None:
    async with running() as (workloads, cluster), asyncio.timeout(DEADLINE):
        changes = workloads.changes()
        await workloads.apply(TASK)
        cluster.bind.set()
        async for owner in changes:
            assert owner == TASK.owner
            (status,) = await workloads.observe(owner.uid)
            assert isinstance(status, TaskStatus)
            if status.phase == "Succeeded":
                assert status.result == RESULT
                return
