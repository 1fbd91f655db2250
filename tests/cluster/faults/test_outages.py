"""Servers go away, forget the past, refuse and contradict: every build is made once all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import Drop, ExpireWatch, Fault, Refuse, SmallPages
from tests.cluster.faults.late import AfterTheBuild, Late
from tests.cluster.faults.operator import OperatorProcess
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.registry import Registry
from tests.cluster.faults.storm import Storm
from tests.cluster.faults.world import NFS, VERSIONS, World, condition, world

from modelwright.adapters.kubernetes.client import JSON

pytestmark = pytest.mark.anyio
NAMES = tuple(f"v-{number}" for number in range(6))
WATCHED = {"models", "modelversions", "jobs", "pods", "persistentvolumeclaims", "persistentvolumes"}


@asynccontextmanager
async def at_work(plane: Plane, registry: Registry, folder: Path) -> AsyncIterator[tuple[World, OperatorProcess]]:
    """An operator that follows everything; in the end it is the same process still."""
    async with world(plane, registry, folder) as stage:
        operator = stage.operator()
        operator.start()
        pid = operator.pid
        await stage.until(lambda: follows(stage), "the operator to follow everything")
        yield stage, operator
        operator.must_run()
        assert operator.pid == pid
        assert "Traceback" not in operator.log.read_text()


async def follows(stage: World) -> bool:
    return stage.proxy.watched() >= WATCHED


def versions(stage: World, names: tuple[str, ...] = NAMES) -> list[JSON]:
    """Half of them from a folder on a node, half from an NFS server."""
    return [stage.version(name, NFS if number % 2 else None) for number, name in enumerate(names)]


def anything(_: Call) -> bool:
    return True


async def running(stage: World, names: tuple[str, ...]) -> None:
    """Wait until each of these has a build that runs and waits."""

    async def all_run() -> bool:
        return len(await stage.running_pods()) == len(names)

    await stage.until(all_run, "the builds to run")


async def test_the_kube_apiserver_is_killed_and_started_again_while_builds_run(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with at_work(plane, registry, tmp_path) as (stage, _):
        stage.kubelet.go.clear()
        await stage.apply(*versions(stage))
        await running(stage, NAMES)
        plane.apiserver.kill()
        stage.kubelet.go.set()
        await stage.until(lambda: ended(stage, len(NAMES)), "the builds to end while there is no API server")
        plane.start_apiserver()
        await stage.built_once(*NAMES)


async def ended(stage: World, count: int) -> bool:
    return sum(build.exit_code is not None for build in stage.kubelet.builds) == count


async def test_etcd_is_compacted_while_the_operator_is_cut_off(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    """Builds end, versions come and go, and none of what happened can be told any more."""
    async with at_work(plane, registry, tmp_path) as (stage, _):
        stage.kubelet.go.clear()
        await stage.apply(*versions(stage))
        await running(stage, NAMES)
        stage.proxy.faults = [Drop(anything)]
        stage.proxy.cut_watches()
        stage.kubelet.go.set()
        await stage.until(lambda: ended(stage, len(NAMES)), "the builds to end")
        await stage.client.delete(VERSIONS, stage.namespace, NAMES[0])
        await stage.apply(stage.version("late"))
        plane.compact()
        plane.apiserver.kill()
        plane.start_apiserver()
        before = len(stage.proxy.calls)
        stage.proxy.faults = []
        await stage.built_once(*NAMES[1:], "late")
        lists = [call.resource for call in stage.proxy.calls[before:] if call.listing and call.status == 200]
        assert all(lists.count(resource) <= 2 for resource in WATCHED), lists


@pytest.mark.parametrize("shape", ["answer", "in-stream", "page"])
async def test_versions_that_are_too_old_are_listed_anew_while_builds_run(
    plane: Plane, registry: Registry, tmp_path: Path, shape: str
) -> None:
    async with at_work(plane, registry, tmp_path) as (stage, _):
        stage.kubelet.go.clear()
        await stage.apply(*versions(stage))
        await running(stage, NAMES)
        down = Refuse(lambda call: call.watch, 503)
        stage.proxy.faults = [down]
        watches = stage.proxy.cut_watches()
        await stage.until(lambda: reached(down, watches), "all watches to be down")
        stage.kubelet.go.set()
        await stage.until(lambda: ended(stage, len(NAMES)), "the builds to end")
        too_old = too_old_faults(shape, watches)
        stage.proxy.faults = list(too_old)
        await stage.built_once(*NAMES)


async def reached(fault: Refuse, times: int) -> bool:
    return fault.done >= times


def too_old_faults(shape: str, times: int) -> tuple[Fault, ...]:
    """As many as there are watches; a list expires between its pages twice."""

    def watching(call: Call) -> bool:
        return call.watch

    match shape:
        case "answer":
            return (Refuse(watching, 410, times),)
        case "in-stream":
            return (ExpireWatch(watching, times),)
        case _:
            between = Refuse(lambda call: "continue" in call.query, 410, 2)
            return SmallPages(2), Refuse(watching, 410, times), between


async def test_a_user_who_edits_all_the_time_loses_nothing_and_holds_up_nothing(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with at_work(plane, registry, tmp_path) as (stage, _):
        await stage.apply(*versions(stage))
        count = 0

        async def edit() -> None:
            nonlocal count
            while True:
                count += 1
                patch = {"metadata": {"annotations": {"example.test/count": str(count)}}}
                for name in NAMES:
                    await stage.client.merge_patch(VERSIONS, stage.namespace, name, patch)

        editing = asyncio.create_task(edit())
        try:
            await stage.built_once(*NAMES)
        finally:
            editing.cancel()
            await asyncio.wait([editing])
        conflicts = sum(call.status == 409 for call in stage.proxy.writes())
        for name in NAMES:
            annotations = (await stage.get(VERSIONS, name))["metadata"]["annotations"]
            assert int(annotations["example.test/count"]) >= count - 1
        assert conflicts < 50 * len(NAMES), "conflicts are answered by a busy loop"


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_half_of_all_requests_fail(plane: Plane, registry: Registry, tmp_path: Path, seed: int) -> None:
    """Refused, dropped, or done without a word: 429, 500, 503, conflicts, connections that end; for half a minute."""
    async with at_work(plane, registry, tmp_path) as (stage, _):
        storm = Storm(seed)
        stage.proxy.faults = [storm]
        stage.proxy.cut_watches()
        await stage.apply(*versions(stage))
        await stage.built_once(*NAMES)
        made = [each for each in stage.proxy.made() if not each.startswith("events ")]
        assert sorted(set(made)) == sorted(made)
        assert storm.done > len(NAMES)


async def test_a_build_is_done_before_the_creation_of_its_job_is_answered(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with at_work(plane, registry, tmp_path) as (stage, _):
        late = AfterTheBuild()
        stage.proxy.faults = [late]
        await stage.apply(*versions(stage))
        await stage.built_once(*NAMES)
        assert late.done >= len(NAMES)


@pytest.mark.parametrize("seed", [1, 2])
async def test_answers_come_later_than_the_news_of_what_they_answer(
    plane: Plane, registry: Registry, tmp_path: Path, seed: int
) -> None:
    async with at_work(plane, registry, tmp_path) as (stage, _):
        late = Late(seed, seconds=2.0)
        stage.proxy.faults = [late]
        await stage.apply(*versions(stage))
        await stage.built_once(*NAMES)
        assert late.done > len(NAMES)


async def test_nothing_binds_volumes_for_a_while(plane: Plane, registry: Registry, tmp_path: Path) -> None:
    """No controller-manager: no Pods, no bound claims. It is said, and goes on by itself."""
    async with at_work(plane, registry, tmp_path) as (stage, _):
        plane.controller_manager.kill()
        try:
            await stage.apply(*versions(stage))

            async def said() -> bool:
                found = [condition(await stage.get(VERSIONS, name), "Reconciling") for name in NAMES]
                return all(each.get("status") == "True" and each.get("message") for each in found)

            await stage.until(said, "the versions to say that they are waiting")
        finally:
            plane.controller_manager.start()
        await stage.built_once(*NAMES)
