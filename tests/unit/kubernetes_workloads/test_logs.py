"""What a build prints: read as it comes, and its progress in it, from a server that says what a test tells it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.kubernetes.servers import Asked, answer, asked, chunked, listening, refused
from tests.unit.kubernetes_workloads.support import JSON, at, container, terminated

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import JobSettings, KubernetesWorkloads
from modelwright.adapters.kubernetes.workloads.progress_lines import last_progress
from modelwright.ports.errors import Forbidden, NotFound
from modelwright.ports.workloads import BuildImage, Claim, Owner, Progress, Task, TaskStatus

pytestmark = pytest.mark.anyio
DEADLINE = 30.0
RUNNING = container(running={})
Log = Callable[[dict[str, list[str]]], bytes]
TASK = Task(
    name="b",
    owner=Owner("v1", "ConfigMap", "a", "owner", "o"),
    action=BuildImage(source=Claim("theirs"), repository="hub.example.com/m", tags=("v1",)),
)


def listed(kind: str, **body: Any) -> JSON:
    labels = {
        "modelwright.dev/owner-uid": "o",
        "batch.kubernetes.io/job-name": "b",
        "batch.kubernetes.io/controller-uid": "j",
    }
    metadata: JSON = {"name": "b" if kind == "jobs" else "b-x", "namespace": "a", "uid": "j" if kind == "jobs" else "p"}
    metadata |= {"resourceVersion": "5", "creationTimestamp": at(0)}
    metadata |= {"ownerReferences": [{"uid": "j", "controller": True}]} if kind == "pods" else {}
    return {"metadata": {**metadata, "labels": labels}, **body}


@asynccontextmanager
async def printing(log: Log, *containers: JSON, phase: str = "Running") -> AsyncIterator[KubernetesWorkloads]:
    """Workloads of a server with one Job and its Pod, whose logs are what `log` makes of the query."""
    items = {
        "jobs": [listed("jobs")],
        "pods": [listed("pods", status={"phase": phase, "containerStatuses": containers})],
    }
    end = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await asked(reader)) is not None:
            writer.write(await reply(request))
            await writer.drain()

    async def reply(request: Asked) -> bytes:
        target = urlsplit(request.target)
        query, kind = parse_qs(target.query), target.path.rpartition("/")[2]
        if kind == "log":
            return log(query)
        if "watch" in query:
            await end.wait()
        return answer({"metadata": {"resourceVersion": "9"}, "items": items.get(kind, [])})

    async with (
        listening(talk) as port,
        KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="a test")) as client,
        KubernetesWorkloads(client, JobSettings(agent_image="a")) as workloads,
    ):
        await workloads.apply(TASK)
        yield workloads


async def printed(workloads: KubernetesWorkloads, *, follow: bool = False) -> list[bytes]:
    async with asyncio.timeout(DEADLINE):
        return [chunk async for chunk in workloads.logs("o", "b", follow=follow)]


async def test_progress_is_found_in_the_last_lines() -> None:
    text = b'packing\n{"bytesDone": 5, "bytesTotal": 10}\npushing\n'

    def log(query: dict[str, list[str]]) -> bytes:
        assert (query["container"], "tailLines" in query) == (["build"], True)
        return chunked(text)

    async with printing(log, RUNNING) as workloads, asyncio.timeout(DEADLINE):
        while True:
            (status,) = await workloads.observe("o")
            assert isinstance(status, TaskStatus)
            if status.progress == Progress(5, 10):
                break
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        (b"", None),
        (b"words\n", None),
        (b'{"bytesDone": 1, "bytesTotal": 2}\n{"bytesDone": 2, "bytesTotal": 2}\nwords', Progress(2, 2)),
        (b'{"bytesDone": 1, "bytesTotal": 2}\n{"bytesDone": 2, "byt', Progress(1, 2)),
        (b'{"other": 1}\n', None),
        (b'{"bytesDone": -1, "bytesTotal": 2}\n', None),
        (b'{"bytesDone": 1, "bytesTotal": 9223372036854775808}\n', None),
        (b'{"bytesDone": 1, "bytesTotal": 2}\n{"x":' + 9000 * b"[", Progress(1, 2)),
    ],
)
def test_the_last_whole_line_of_progress_counts(text: bytes, progress: Progress | None) -> None:
    assert last_progress(text) == progress


async def test_the_logs_of_all_containers_come_one_after_the_other() -> None:
    def log(query: dict[str, list[str]]) -> bytes:
        return chunked(f"{query['container'][0]} {query['follow'][0]}\n".encode(), b"more\n")

    ends = (terminated(name="prepare"), terminated(name="kaniko"), terminated(name="finish"))
    async with printing(log, *ends, phase="Succeeded") as workloads:
        assert b"".join(await printed(workloads)) == b"prepare false\nmore\nkaniko false\nmore\nfinish false\nmore\n"
        assert b"".join(await printed(workloads, follow=True)).startswith(b"prepare true\n")


async def test_what_has_not_begun_has_printed_nothing() -> None:
    def log(query: dict[str, list[str]]) -> bytes:
        return answer(refused(400, "BadRequest", "waiting to start"), 400)

    async with printing(log, container(waiting={"reason": "ContainerCreating"}), phase="Pending") as workloads:
        assert await printed(workloads) == []
    async with printing(log, RUNNING) as workloads:  # the API server knows better than its last word
        assert await printed(workloads) == []


async def test_a_refusal_is_told() -> None:
    def log(query: dict[str, list[str]]) -> bytes:
        return answer(refused(403, "Forbidden"), 403)

    async with printing(log, RUNNING) as workloads:
        with pytest.raises(Forbidden):
            await printed(workloads)
        with pytest.raises(NotFound):
            _ = [chunk async for chunk in workloads.logs("o", "other")]
