"""CRDs change under stored objects, and objects are stored that no rule has seen: one bad object stops nobody else."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.faults.operator import OperatorProcess
from tests.cluster.faults.plane import Plane
from tests.cluster.faults.registry import Registry
from tests.cluster.faults.world import VERSIONS, World, world

from modelwright.adapters.kubernetes.client import JSON
from modelwright.adapters.kubernetes.faults import InvalidResource
from modelwright.adapters.kubernetes.resource import CRDS
from modelwright.api.crd import crd
from modelwright.api.kinds import MODEL_VERSION

pytestmark = pytest.mark.anyio
NAMES = ("good-0", "good-1")


def nothing(value: JSON) -> None:
    value.pop("spec")


def no_storage(value: JSON) -> None:
    value["spec"].pop("storage")


def two_storages(value: JSON) -> None:
    value["spec"]["storage"]["nfs"] = {"server": "nfs.test", "path": "/x"}


def numbers_for_texts(value: JSON) -> None:
    value["spec"].update({"imageRepo": 5, "modelName": 7})


def a_text_for_the_spec(value: JSON) -> None:
    value["spec"] = "none"


def names_that_are_none(value: JSON) -> None:
    value["spec"].update({"imageRepo": "No Such/../Repo:x@y", "modelName": "../../etc", "imageTag": "a b"})


def a_status_that_is_none(value: JSON) -> None:
    value["status"] = {"conditions": "none", "attempts": "many", "imageBuildPhase": 3}


def a_status_that_lies(value: JSON) -> None:
    value["status"] = {"imageBuildPhase": "ImageBuildSucceeded", "finishTime": "yesterday", "attempts": -1}


def annotations_that_are_none(value: JSON) -> None:
    value["metadata"]["annotations"] = {
        "modelwright.dev/reconcile-requested-at": "\u0000\n",
        "modelwright.dev/suspend": "",
    }


def an_owner_that_is_none(value: JSON) -> None:
    owner = {"apiVersion": "v1", "kind": "Model", "name": "gone", "uid": "no-uid", "controller": True}
    value["metadata"]["ownerReferences"] = [owner]


def a_builder_that_is_none(value: JSON) -> None:
    value["spec"]["builder"] = "magic"


def lineage_that_is_none(value: JSON) -> None:
    value["spec"]["lineage"] = {"parents": "all", "parameters": {"x": {"y": 1}}, "metrics": []}


SPOILERS = (
    nothing,
    no_storage,
    two_storages,
    numbers_for_texts,
    a_text_for_the_spec,
    names_that_are_none,
    a_status_that_is_none,
    a_status_that_lies,
    annotations_that_are_none,
    an_owner_that_is_none,
    a_builder_that_is_none,
    lineage_that_is_none,
)


@asynccontextmanager
async def staged(plane: Plane, registry: Registry, folder: Path) -> AsyncIterator[tuple[World, OperatorProcess]]:
    """An operator that is not started yet; in the end it must run, and have known what to do with everything."""
    async with world(plane, registry, folder) as stage:
        operator = stage.operator()
        yield stage, operator
        operator.must_run()
        assert "Traceback" not in operator.log.read_text()


def store(stage: World, name: str, value: JSON) -> None:
    """Write a version to etcd, past all rules. The CRD's storage is JSON."""
    metadata = {"uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{stage.namespace}/{name}")), "generation": 1}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    value["metadata"] = {**value["metadata"], **metadata}
    stage.plane.put(f"/registry/{VERSIONS.group}/{VERSIONS.plural}/{stage.namespace}/{name}", value)


@pytest.mark.parametrize("running", [True, False], ids=["while-it-runs", "before-it-starts"])
async def test_stored_objects_that_break_every_rule_stop_nobody_else(
    plane: Plane, registry: Registry, tmp_path: Path, running: bool
) -> None:
    async with staged(plane, registry, tmp_path) as (stage, operator):
        if running:
            operator.start()
            await stage.apply(stage.version(NAMES[0]))
            await stage.built_once(NAMES[0])
        for spoil in SPOILERS:
            name = spoil.__name__.replace("_", "-")
            value = stage.version(name)
            spoil(value)
            store(stage, name, value)
            assert await stage.get(VERSIONS, name), "the API server does not know it"
        operator.start()
        await stage.apply(stage.version(NAMES[1]))
        await stage.built_with_others(NAMES[1])
        operator.kill()
        operator.start()
        await stage.apply(stage.version("late"))
        await stage.built_with_others("late")


async def test_a_crd_that_becomes_stricter_leaves_old_objects_to_be_built(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    """The upgrade ends all watches of the kind, and what is stored would not be accepted any more."""
    async with staged(plane, registry, tmp_path) as (stage, operator):
        operator.start()
        stage.kubelet.go.clear()
        await stage.apply(*(stage.version(name) for name in NAMES))

        async def all_run() -> bool:
            return len(await stage.running_pods()) == len(NAMES)

        await stage.until(all_run, "the builds to run")
        try:
            await replace_crd(stage, stricter(crd(MODEL_VERSION)))
            stage.kubelet.go.set()
            await stage.built_once(*NAMES)
        finally:
            await replace_crd(stage, crd(MODEL_VERSION))
        await stage.apply(stage.version("after"))
        await stage.built_once(*NAMES, "after")


async def test_a_crd_with_a_field_that_this_operator_does_not_know(
    plane: Plane, registry: Registry, tmp_path: Path
) -> None:
    """A newer release's CRD is there before the newer operator: its fields are kept, and not understood."""
    async with staged(plane, registry, tmp_path) as (stage, operator):
        operator.start()
        try:
            await replace_crd(stage, with_colour(crd(MODEL_VERSION)))

            async def applied() -> bool:
                await stage.apply(stage.version("new", colour="red"))
                return "colour" in (await stage.get(VERSIONS, "new"))["spec"]

            assert await applied()
            await stage.built_once("new")
            assert (await stage.get(VERSIONS, "new"))["spec"]["colour"] == "red"
        finally:
            await replace_crd(stage, crd(MODEL_VERSION))


async def replace_crd(stage: World, wanted: JSON) -> None:
    """Put it in the place of the one that is there, and wait until objects are judged by it.

    No condition of the CRD tells that: its handler goes on with the former schema for a while.
    """
    name = MODEL_VERSION.crd_name
    found = await stage.client.get(CRDS, "", name)
    metadata = {**wanted["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
    await stage.client.replace(CRDS, "", name, {**wanted, "metadata": metadata})
    schema = spec_schema(wanted)
    strict, coloured = "createdBy" in schema.get("required", ()), "colour" in schema["properties"]

    async def in_force() -> bool:
        probe = stage.version("probe", colour="red")
        try:
            stored = await stage.client.create(VERSIONS, stage.namespace, probe, dry_run=True)
        except InvalidResource:
            return strict
        return not strict and ("colour" in stored["spec"]) is coloured

    await stage.until(in_force, "the CRD to be in force")


def spec_schema(wanted: JSON) -> Any:
    return wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def stricter(wanted: JSON) -> JSON:
    changed = deepcopy(wanted)
    spec_schema(changed)["properties"]["createdBy"]["minLength"] = 3
    spec_schema(changed)["required"] = [*spec_schema(changed).get("required", []), "createdBy"]
    return changed


def with_colour(wanted: JSON) -> JSON:
    changed = deepcopy(wanted)
    spec_schema(changed)["properties"]["colour"] = {"type": "string", "maxLength": 20}
    return changed
