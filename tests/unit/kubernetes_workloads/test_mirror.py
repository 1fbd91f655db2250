"""A mirror holds what the server says, whatever way its lists and watches end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.unit.kubernetes.servers import Asked, answer, asked, chunked, listening, refused

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads.kinds import JOBS, Job
from modelwright.adapters.kubernetes.workloads.mirror import Mirror

pytestmark = pytest.mark.anyio
DEADLINE = 30.0
JSON = dict[str, Any]
Reply = Callable[[Asked], bytes]


def a_job(name: str, version: int, uid: str = "", owner: str = "o", **metadata: Any) -> JSON:
    labels = {"app.kubernetes.io/managed-by": "modelwright", "modelwright.dev/owner-uid": owner}
    said = {"name": name, "namespace": "a", "uid": uid or name, "resourceVersion": str(version), "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**said, **metadata}, "spec": {}, "status": {}}


def a_list(*items: JSON, version: int = 10, token: str = "") -> bytes:
    return answer({"metadata": {"resourceVersion": str(version), "continue": token}, "items": items})


def lines(*changes: tuple[str, JSON], end: bool = True) -> bytes:
    data = [json.dumps({"type": type_, "object": body}).encode() + b"\n" for type_, body in changes]
    return chunked(*data, end=end)


BOOKMARK = {"metadata": {"resourceVersion": "50", "creationTimestamp": None}}
EXPIRED = refused(410, "Expired", "too old resource version")


@asynccontextmanager
async def mirrored(*replies: bytes) -> AsyncIterator[tuple[Mirror[Job], list[Asked], list[str]]]:
    """A mirror of a server that gives these answers in turn, and none after the last. Who is told stumbles over one."""
    requests: list[Asked] = []
    changed: list[str] = []

    def told(uid: str) -> None:
        changed.append(uid)
        if uid == "stumbles":
            raise RecursionError(uid)

    silent = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await asked(reader)
        if request is None:
            return
        requests.append(request)
        if len(requests) > len(replies):
            await silent.wait()
        writer.write(replies[len(requests) - 1])
        await writer.drain()

    async with (
        listening(talk) as port,
        KubernetesClient(Access(server=f"http://127.0.0.1:{port}", source="a test")) as client,
    ):
        mirror = Mirror(client, JOBS, Job, told)
        running = asyncio.create_task(mirror.run())
        try:
            yield mirror, requests, changed
        finally:
            running.cancel()
            await asyncio.wait([running])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not holds():
            await asyncio.sleep(0.01)


def names(mirror: Mirror[Job]) -> list[str]:
    return sorted(job.metadata.name for job in mirror.all())


async def test_pages_and_changes_are_taken_in_and_told() -> None:
    watch = lines(
        ("ADDED", a_job("c", 11)), ("MODIFIED", a_job("a", 12)), ("DELETED", a_job("b", 13)), ("BOOKMARK", BOOKMARK)
    )
    async with mirrored(a_list(a_job("a", 1), token="t"), a_list(a_job("b", 2, owner="p")), watch) as (
        mirror,
        requests,
        changed,
    ):
        await until(lambda: len(requests) == 4)
        assert names(mirror) == ["a", "c"]
        assert changed == ["o", "p", "o", "o", "p"]
        assert [job.metadata.name for job in mirror.of("o")] and mirror.of("p") == []
        assert "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dmodelwright" in requests[0].target
        assert "continue=t" in requests[1].target
        assert "resourceVersion=50" in requests[3].target  # a bookmark's


@pytest.mark.parametrize(
    "ended",
    [
        [answer(EXPIRED, 410)],
        [lines(("ERROR", EXPIRED))],
        [answer(EXPIRED, 410), a_list(a_job("a", 20), version=20, token="t"), answer(EXPIRED, 410)],
    ],
)
async def test_what_has_expired_is_listed_again(ended: list[bytes]) -> None:
    first, second = a_list(a_job("a", 1), a_job("gone", 2)), a_list(a_job("a", 30), a_job("new", 31), version=40)
    async with mirrored(first, *ended, second) as (mirror, requests, _):
        await until(lambda: names(mirror) == ["a", "new"])
        await until(lambda: len(requests) == len(ended) + 3)
        assert "resourceVersion=40" in requests[-1].target


async def test_a_watch_that_is_cut_goes_on_where_it_was() -> None:
    cut = lines(("ADDED", a_job("b", 17)), end=False)
    async with mirrored(a_list(a_job("a", 1)), cut) as (mirror, requests, _):
        await until(lambda: len(requests) == 3)
        assert names(mirror) == ["a", "b"]
        assert "resourceVersion=17" in requests[2].target


async def test_a_server_that_is_down_is_asked_until_it_answers() -> None:
    down = answer(refused(503, "ServiceUnavailable"), 503)
    async with mirrored(down, down, a_list(a_job("a", 1))) as (mirror, _, _):
        await asyncio.wait_for(mirror.synced.wait(), DEADLINE)
        assert names(mirror) == ["a"]


async def test_older_news_never_undoes_what_we_wrote() -> None:
    old = lines(("MODIFIED", a_job("a", 12)), ("ADDED", a_job("b", 13)), ("ADDED", a_job("mark", 14)))
    async with mirrored(a_list(a_job("a", 1), a_job("b", 2)), b"", old) as (mirror, _, changed):
        await mirror.synced.wait()
        written = mirror.decode(json.dumps(a_job("a", 20)).encode())
        deleted = mirror.get("a", "b")
        assert deleted is not None
        mirror.wrote(written)
        mirror.deleted(deleted, None)
        changed.clear()
        await until(lambda: "mark" in names(mirror))
        assert mirror.get("a", "a") == written
        assert mirror.get("a", "b") is None
        assert changed == ["o"]


async def test_what_is_deleted_but_held_stays_as_going() -> None:
    async with mirrored(a_list(a_job("a", 1))) as (mirror, _, _):
        await mirror.synced.wait()
        before = mirror.get("a", "a")
        assert before is not None
        left = mirror.convert(a_job("a", 15, deletionTimestamp="2026-01-01T00:00:00Z"))
        mirror.deleted(before, left)
        assert mirror.get("a", "a") == left


async def test_what_the_watch_has_seen_go_does_not_come_back_by_a_late_answer() -> None:
    watch = lines(("DELETED", a_job("a", 20)))
    async with mirrored(a_list(a_job("a", 1)), watch) as (mirror, _, _):
        await mirror.synced.wait()
        before = mirror.get("a", "a")
        assert before is not None
        await until(lambda: names(mirror) == [])
        mirror.deleted(before, mirror.convert(a_job("a", 19, deletionTimestamp="2026-01-01T00:00:00Z")))
        mirror.wrote(mirror.convert(a_job("a", 15)))
        assert names(mirror) == []


async def test_another_object_of_the_same_name_is_another() -> None:
    watch = lines(("ADDED", a_job("a", 12, uid="second")), ("DELETED", a_job("a", 11, uid="first")))
    async with mirrored(a_list(a_job("a", 1, uid="first")), watch) as (mirror, requests, _):
        await until(lambda: len(requests) == 3)
        now = mirror.get("a", "a")
        assert now is not None
        assert now.metadata.uid == "second"


async def test_what_cannot_be_read_or_is_nobodys_is_passed_over() -> None:
    bad: JSON = {"metadata": {"name": "bad", "namespace": "a", "uid": "bad", "resourceVersion": "3"}, "status": 7}
    watch = lines(("MODIFIED", {**bad, "metadata": {**bad["metadata"], "resourceVersion": "12"}}))
    async with mirrored(a_list(bad, a_job("a", 1), a_job("theirs", 2, owner="")), watch) as (mirror, requests, _):
        await until(lambda: len(requests) == 3)
        assert names(mirror) == ["a"]
        assert "resourceVersion=12" in requests[2].target


async def test_one_that_the_listener_stumbles_over_keeps_no_other_from_being_seen() -> None:
    watch = lines(("ADDED", a_job("c", 11, owner="stumbles")), ("ADDED", a_job("d", 12)))
    async with mirrored(a_list(a_job("a", 1, owner="stumbles"), a_job("b", 2)), watch) as (mirror, requests, changed):
        await until(lambda: len(requests) == 3)
        assert names(mirror) == ["a", "b", "c", "d"]
        assert changed == ["stumbles", "o", "stumbles", "o"]
        assert "resourceVersion=12" in requests[2].target
