"""What is built may be deleted at any time, whole namespaces too: nothing of it is left, volumes neither."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.faults.operator import OperatorProcess
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.registry import Registry
from tests.cluster.faults.world import MODELS, NFS, VERSIONS, World, world

from modelwright.adapters.kubernetes.resource import NAMESPACES
from modelwright.ports.errors import NotFound

pytestmark = pytest.mark.anyio
NAMES = ("v-0", "v-1", "v-2")


@asynccontextmanager
async def building(plane: Plane, registry: Registry, folder: Path) -> AsyncIterator[tuple[World, OperatorProcess]]:
    """Builds of three versions that run and do not end."""
    async with world(plane, registry, folder) as stage:
        operator = stage.operator()
        operator.start()
        stage.kubelet.go.clear()
        await stage.apply(*(stage.version(name, NFS if name == NAMES[1] else None) for name in NAMES))

        async def all_run() -> bool:
            return len(await stage.running_pods()) == len(NAMES)

        await stage.until(all_run, "the builds to run")
        yield stage, operator
        operator.must_run()
        assert "Traceback" not in operator.log.read_text()


async def gone(stage: World) -> bool:
    """Whether the namespace has gone, and no volume of it is left."""
    try:
        await stage.client.get(NAMESPACES, "", stage.namespace)
    except NotFound:
        return not await stage.children()
    return False


async def test_a_namespace_that_is_deleted_while_it_builds_goes_with_its_volumes(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with building(plane, registry, tmp_path) as (stage, _):
        await stage.client.delete(NAMESPACES, "", stage.namespace)
        await stage.until(lambda: gone(stage), "the namespace and its volumes to go")
        assert stage.kubelet.builds == []
        await stage.refill()
        stage.kubelet.go.set()
        await stage.apply(stage.version("after"))
        await stage.built_once("after")


async def test_a_namespace_that_is_deleted_while_there_is_no_operator_leaves_no_volume(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    """Volumes are in no namespace, and nobody owns them: the next operator finds whose they were."""
    async with building(plane, registry, tmp_path) as (stage, operator):
        operator.kill()
        await stage.client.delete(NAMESPACES, "", stage.namespace)

        async def only_volumes() -> bool:
            left = await stage.children()
            return bool(left) and all(each.startswith("persistentvolumes/") for each in left)

        await stage.until(only_volumes, "all but the volumes to go")
        operator.start()
        await stage.until(lambda: gone(stage), "the volumes to go")


async def test_a_version_that_is_deleted_while_it_builds_leaves_nothing(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with building(plane, registry, tmp_path) as (stage, _):
        await stage.client.delete(VERSIONS, stage.namespace, NAMES[0])

        async def cleared() -> bool:
            return not [each for each in await stage.children() if NAMES[0] in each]

        await stage.until(cleared, "its build to go")
        stage.kubelet.go.set()
        await stage.built_once(*NAMES[1:])
        assert await stage.get(VERSIONS, NAMES[0]) == {}
        assert stage.registry.tags(stage.repository(NAMES[0])) == {}


async def test_a_version_made_again_under_its_name_while_it_builds_is_built_for_itself(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with building(plane, registry, tmp_path) as (stage, _):
        before = await stage.get(VERSIONS, NAMES[0])
        old = {each for each in await stage.children() if f"/{NAMES[0]}-" in each}
        await stage.client.delete(VERSIONS, stage.namespace, NAMES[0])
        await stage.apply(stage.version(NAMES[0], NFS))

        async def cleared() -> bool:
            return not old.intersection(await stage.children())

        await stage.until(cleared, "the build of the first one to go")
        stage.kubelet.go.set()
        await stage.built_once(*NAMES)
        after = await stage.get(VERSIONS, NAMES[0])
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert stage.kubelet.of(before["metadata"]["uid"]) == []


async def test_a_model_that_is_deleted_while_it_builds_takes_its_versions_with_it(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    async with building(plane, registry, tmp_path) as (stage, _):
        for name in NAMES:
            await stage.client.delete(MODELS, stage.namespace, f"{name}-model")

        async def all_gone() -> bool:
            versions = [await stage.get(VERSIONS, name) for name in NAMES]
            models = [await stage.get(MODELS, f"{name}-model") for name in NAMES]
            return not any((*versions, *models)) and not await stage.children()

        await stage.until(all_gone, "models, versions and builds to go")
        assert stage.kubelet.builds == []
