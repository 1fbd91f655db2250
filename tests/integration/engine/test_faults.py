"""What goes wrong stays where it is: a poison object, a refusal, a deletion at the worst moment, a broken watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.integration.engine.stage import NS, Stage, condition, is_true, nothing_runs_for, running, until

from modelwright.api.inference_model import InferenceModel
from modelwright.api.meta import Metadata, OwnerReference
from modelwright.api.model import Model, ModelSpec
from modelwright.api.model_version import ModelVersion
from modelwright.engine.apply import Applier
from modelwright.engine.cache import Cache
from modelwright.ports.clock import SystemClock
from modelwright.ports.errors import Conflict, Invalid, Unavailable
from modelwright.reconcile.plan import Plan

pytestmark = pytest.mark.anyio


async def test_a_poison_object_keeps_no_other_from_being_reconciled(stage: Stage) -> None:
    stage.workloads.refusals["poison"] = RuntimeError("a fault that nobody has thought of")  # type: ignore[assignment]
    async with running(stage.store, stage.workloads):
        await stage.version("poison")
        for name in ("v1", "v2", "v3", "v4", "v5"):
            await stage.version(name)
        for name in ("v1", "v2", "v3", "v4", "v5"):
            await stage.until_ready(ModelVersion, name)
        del stage.workloads.refusals["poison"]
        await stage.until_ready(ModelVersion, "poison")


@pytest.mark.parametrize(
    ("error", "type_"),
    [
        (Invalid("limits.memory is no quantity", reason="QuantityInvalid"), "Stalled"),
        (Unavailable("no room", reason="DiskError"), "Reconciling"),
    ],
    ids=["for good", "for now"],
)
async def test_a_refusal_is_said_and_forgotten_once_it_is_over(stage: Stage, error: Any, type_: str) -> None:
    stage.workloads.refusals |= {"v1": error, "served": error}
    subjects: list[tuple[type, str]] = [(ModelVersion, "v1"), (InferenceModel, "served")]

    def said(resource: Any) -> bool:
        return is_true(resource, type_) and condition(resource, type_).reason == error.reason

    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.version("v2")
        await stage.until_ready(ModelVersion, "v2")
        await stage.serve("v2")
        for kind, name in subjects:
            found = await stage.until(kind, name, said)
            assert condition(found, "Ready").status == "False"
            assert error.message in condition(found, type_).message
        assert (await stage.get(ModelVersion, "v1")).status.image_build_phase is None
        stage.workloads.refusals.clear()
        for kind, name in subjects:
            await stage.until_ready(kind, name)


async def test_a_refusal_in_ever_other_words_is_written_once(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        stage.workloads.refusals["v1"] = Unavailable("port 1 refused", reason="Refused")
        await stage.version("v1")
        found = await stage.until(ModelVersion, "v1", lambda item: is_true(item, "Reconciling"))
        stage.workloads.refusals["v1"] = Unavailable("port 2 refused", reason="Refused")
        stage.workloads.applying.clear()
        await stage.change(ModelVersion, "v1", annotate={"look": "again"})
        await asyncio.wait_for(stage.workloads.applying.wait(), 30)
        stage.workloads.refusals.clear()
        await stage.until_ready(ModelVersion, "v1")
    told = await stage.events()
    assert told.count("Refused") == 1
    assert "port 1" in found.status.message


async def test_what_starts_while_its_owner_is_deleted_is_stopped(stage: Stage) -> None:
    """The deletion is over, and swept for, before the start comes through; the status then finds nobody."""
    async with running(stage.store, stage.workloads):
        stage.workloads.free.clear()
        await stage.version("v1")
        await asyncio.wait_for(stage.workloads.applying.wait(), 30)
        await stage.delete(ModelVersion, "v1")
        await stage.version("v2", model="another")  # its Model shows that the deletion has been seen
        await stage.until(Model, "another", lambda model: model.status.conditions)
        stage.workloads.free.set()
        await stage.until_ready(ModelVersion, "v2")
        await nothing_runs_for(stage, "ModelVersion")


async def test_a_name_that_is_used_again_is_another_object(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        await stage.serve("v1")
        first = await stage.until_ready(InferenceModel, "served")
        stage.workloads.pause()
        await stage.delete(InferenceModel, "served")
        await stage.serve("v1")

        async def only_the_new_one() -> bool:
            uids = {uid for uid, _ in stage.workloads.applied}
            return len(uids) == 1 and first.metadata.uid not in uids

        await until(only_the_new_one, "only the new one to run")
        assert not is_true(await stage.get(InferenceModel, "served"), "Available")
        stage.workloads.go_on()
        second = await stage.until_ready(InferenceModel, "served")
    assert second.metadata.uid != first.metadata.uid
    assert len(second.status.history) == 1


async def test_a_model_that_is_deleted_takes_its_builds_along(stage: Stage) -> None:
    async with running(stage.store, stage.workloads):
        stage.workloads.pause()
        for name in ("v1", "v2"):
            await stage.version(name)
            await stage.until(ModelVersion, name, lambda item: item.status.image_build_phase == "ImageBuilding")
        await stage.delete(Model, "digits")
        await nothing_runs_for(stage, "ModelVersion")
        assert (await stage.store.list(Model)).items == ()
        stage.workloads.go_on()


async def test_an_orphan_that_cannot_be_removed_keeps_no_other_from_going(stage: Stage) -> None:
    stage.workloads.immovable = {"a", "b"}
    async with running(stage.store, stage.workloads):
        await stage.version("v1")
        for name in ("a", "b", "c", "d"):
            await stage.serve("v1", name)
            await stage.until_ready(InferenceModel, name)
        for name in ("a", "b", "c", "d"):
            await stage.delete(InferenceModel, name)

        async def only_those() -> bool:
            return stage.workloads.names("InferenceModel") == ["a", "b"]

        await until(only_those, "the others to go")
        stage.workloads.immovable = set()
        await nothing_runs_for(stage, "InferenceModel")


async def test_what_changes_while_the_watch_of_workloads_is_broken_is_not_missed(stage: Stage) -> None:
    async with running(stage.store, stage.workloads) as engine:
        stage.workloads.pause()
        await stage.version("v1")

        async def told_and_over() -> bool:
            return {"ImageBuilding", "Tracking"} <= set(await stage.events()) and engine.idle

        async def followed_again() -> bool:
            return stage.workloads.subscriptions == 2

        await until(told_and_over, "nothing to be left to do but to wait for the build")
        stage.workloads.cut_off("v1")
        stage.workloads.go_on()
        await until(followed_again, "the engine to follow the workloads again")
        stage.workloads.cut.clear()
        await stage.until_ready(ModelVersion, "v1")


async def test_a_watch_that_breaks_in_an_unheard_of_way_is_begun_anew(stage: Stage) -> None:
    class Breaking:
        """A store whose first watch of each kind fails as no store should."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self._broken: set[type] = set()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        async def watch(self, type_: type, version: str) -> AsyncIterator[Any]:
            if type_ not in self._broken:
                self._broken.add(type_)
                raise OSError("a fault that nobody has thought of")
            async for change in self._inner.watch(type_, version):
                yield change

    async with running(Breaking(stage.store), stage.workloads):
        await stage.version("v1")
        await stage.until_ready(ModelVersion, "v1")


async def test_a_version_that_somebody_else_controls_belongs_to_its_model_too(stage: Stage) -> None:
    reference = OwnerReference("example.test/v1", "Training", "train", "uid-of-training", controller=True)
    async with running(stage.store, stage.workloads):
        await stage.version("v1", owner_references=(reference,))
        found = await stage.until_ready(ModelVersion, "v1")
    owners = {owner.kind: owner.controller for owner in found.metadata.owner_references}
    assert owners == {"Training": True, "Model": False}


async def test_nobody_is_given_an_owner_that_is_gone(stage: Stage) -> None:
    """The cache still has it: pointing to it would delete the resource, with all that belongs to it."""
    gone = await stage.store.create(Model(metadata=Metadata(name="digits", namespace=NS), spec=ModelSpec()))
    version = await stage.version("v1")
    await stage.delete(Model, "digits")
    caches: dict[type, Cache[Any]] = {kind: Cache(stage.store, kind) for kind in (Model, ModelVersion)}
    applier = Applier(stage.store, stage.workloads, caches, SystemClock())
    owner = OwnerReference(gone.api_version, gone.kind, gone.metadata.name, gone.metadata.uid, controller=True)
    with pytest.raises(Conflict):
        await applier.apply(version, always(Plan(owner=owner)))
    await stage.store.create(Model(metadata=Metadata(name="digits", namespace=NS), spec=ModelSpec()))
    with pytest.raises(Conflict):
        await applier.apply(version, always(Plan(owner=owner)))
    assert await stage.get(ModelVersion, "v1") == version


def always(plan: Plan) -> Callable[[Any], Any]:
    async def decide(resource: Any) -> Plan:
        return plan

    return decide


async def test_stopping_in_the_middle_leaves_nothing_of_the_engine_behind(stage: Stage) -> None:
    before = asyncio.all_tasks()
    async with running(stage.store, stage.workloads):
        stage.workloads.free.clear()
        for name in ("v1", "v2", "v3", "v4", "v5", "v6"):
            await stage.version(name)
        await asyncio.wait_for(stage.workloads.applying.wait(), 30)

    async def ended() -> bool:
        return not {task for task in asyncio.all_tasks() - before if "engine" in repr(task.get_coro())}

    await until(ended, "all tasks of the engine to end")
