"""Children of a plan: made where they are missing, kept equal to what they should be, deleted when not wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.integration.engine.crashing import Steps, store_of
from tests.integration.engine.stage import NS, Stage, condition

from modelwright.api.inference_model import InferenceModel, InferenceModelSpec
from modelwright.api.meta import Metadata
from modelwright.api.model import Model, ModelSpec
from modelwright.engine.apply import Applier
from modelwright.engine.cache import Cache
from modelwright.ports.clock import SystemClock
from modelwright.ports.errors import Conflict, Invalid, NotFound
from modelwright.reconcile.plan import Plan

pytestmark = pytest.mark.anyio


class Applying:
    """Applies plans for one Model whose children are InferenceModels; `steps` counts the writes."""

    def __init__(self, stage: Stage) -> None:
        self.steps = Steps()
        store = store_of(stage.store, self.steps)
        self.caches: dict[type, Cache[Any]] = {kind: Cache(stage.store, kind) for kind in (Model, InferenceModel)}
        self._applier = Applier(store, stage.workloads, self.caches, SystemClock())
        self._stage = stage

    async def apply(self, **plan: Any) -> None:
        try:
            owner = await self._stage.get(Model, "digits")
        except NotFound:
            new = Model(metadata=Metadata(name="digits", namespace=NS), spec=ModelSpec())
            owner = await self._stage.store.create(new)
        self.steps.count = 0
        await self._applier.apply(owner, always(Plan(**plan)))


def always(plan: Plan) -> Callable[[Any], Any]:
    async def decide(resource: Any) -> Plan:
        return plan

    return decide


def child(**spec: Any) -> InferenceModel:
    values = {"model_name": "digits", "deploy_to_layer": "cloud", "framework_type": "onnx", "model_version": "v1"}
    return InferenceModel(metadata=Metadata(name="child", namespace=NS), spec=InferenceModelSpec(**(values | spec)))


def with_spec(seen: InferenceModel, **spec: Any) -> InferenceModel:
    return msgspec.structs.replace(seen, spec=msgspec.structs.replace(seen.spec, **spec))


async def test_a_child_gets_the_spec_that_it_should_have(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    seen = await stage.get(InferenceModel, "child")
    await applying.apply(update=(with_spec(seen, model_version="v2"),))
    found = await stage.get(InferenceModel, "child")
    assert (found.spec.model_version, found.metadata.generation) == ("v2", 2)
    assert applying.caches[InferenceModel].get(NS, "child") == found, "what is written is known at once"


async def test_a_child_that_is_as_it_should_be_is_not_written(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    seen = await stage.get(InferenceModel, "child")
    await applying.apply(update=(seen,))
    assert applying.steps.count == 0
    assert await stage.get(InferenceModel, "child") == seen


async def test_a_child_that_somebody_else_has_changed_is_decided_on_anew(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    seen = await stage.get(InferenceModel, "child")
    await stage.change(InferenceModel, "child", replicas=3)
    with pytest.raises(Conflict):
        await applying.apply(update=(with_spec(seen, model_version="v2"),))
    assert (await stage.get(InferenceModel, "child")).spec.replicas == 3


async def test_a_child_that_is_gone_is_decided_on_anew(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    seen = await stage.get(InferenceModel, "child")
    await stage.delete(InferenceModel, "child")
    with pytest.raises(Conflict):
        await applying.apply(update=(with_spec(seen, model_version="v2"),))


async def test_a_child_that_the_store_refuses_is_said_in_the_conditions(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    seen = await stage.get(InferenceModel, "child")
    with pytest.raises(Invalid):
        await applying.apply(update=(with_spec(seen, model_name="Not A Name"),))
    stalled = condition(await stage.get(Model, "digits"), "Stalled")
    assert stalled.status == "True"
    assert "spec.modelName" in stalled.message


async def test_a_child_that_is_not_wanted_is_deleted(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    seen = await stage.get(InferenceModel, "child")
    await applying.apply(delete=(seen,))
    assert (await stage.store.list(InferenceModel)).items == ()
    await applying.apply(delete=(seen,))  # it is gone already: nothing to say


async def test_another_object_of_that_name_is_not_deleted(stage: Stage) -> None:
    applying = Applying(stage)
    await applying.apply(create=(child(),))
    former = await stage.get(InferenceModel, "child")
    await stage.delete(InferenceModel, "child")
    await applying.apply(create=(child(),))
    with pytest.raises(Conflict):
        await applying.apply(delete=(former,))
    assert len((await stage.store.list(InferenceModel)).items) == 1


async def test_a_child_that_is_going_already_is_left_to_go(stage: Stage) -> None:
    held = msgspec.structs.replace(
        child(), metadata=Metadata(name="child", namespace=NS, finalizers=("example.test/wait",))
    )
    applying = Applying(stage)
    await applying.apply(create=(held,))
    await applying.apply(delete=(await stage.get(InferenceModel, "child"),))
    going = await stage.get(InferenceModel, "child")
    assert going.metadata.deletion_timestamp is not None
    await applying.apply(delete=(going,))
    assert applying.steps.count == 0
