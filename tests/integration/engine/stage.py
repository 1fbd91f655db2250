"""An engine on a real store, what users do to it, and what is to be true in the end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from tests.integration.engine.memory_workloads import MemoryWorkloads

from modelwright.adapters.embedded.editing import Deletion
from modelwright.adapters.embedded.store import EmbeddedStore
from modelwright.api.inference_model import InferenceModel, InferenceModelSpec
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.kinds import kind_of, to_dict
from modelwright.api.meta import Metadata
from modelwright.api.model_version import ModelVersion, ModelVersionSpec
from modelwright.api.storage import LocalStorage, Storage
from modelwright.api.training_model import TrainingModel, TrainingModelSpec
from modelwright.engine.engine import KINDS, Engine
from modelwright.ports.clock import SystemClock
from modelwright.ports.errors import NotFound

DEADLINE = 30.0
NS = "default"
Annotations = dict[str, str | None]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[EmbeddedStore]:
    store = await EmbeddedStore.open(path)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def running(store: Any, workloads: Any, *, resync: float = 600.0) -> AsyncIterator[Engine]:
    """An engine that runs for the length of the block, and must not end by itself."""
    engine = Engine(store, workloads, SystemClock(), resync_seconds=resync)
    task = asyncio.create_task(engine.run())
    try:
        yield engine
        assert not task.done(), "the engine has ended by itself"
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


class Stage:
    """One store, one place to run workloads, and what users and tests do with them."""

    def __init__(self, store: EmbeddedStore, workloads: MemoryWorkloads) -> None:
        self.store = store
        self.workloads = workloads

    # What users do --------------------------------------------------------------------------------------------------

    async def version(self, name: str, *, model: str = "digits", path: str = "", **metadata: Any) -> ModelVersion:
        storage = Storage(local_storage=LocalStorage(path=path or f"/models/{name}", node_name="laptop"))
        spec = ModelVersionSpec(model_name=model, image_repo="hub/digits", image_tag=name, storage=storage)
        meta = Metadata(name=name, namespace=NS, **metadata)
        return await self.store.create(ModelVersion(metadata=meta, spec=spec))

    async def serve(self, version: str, name: str = "served", **spec: Any) -> InferenceModel:
        values = {"model_name": "digits", "deploy_to_layer": "cloud", "framework_type": "onnx"} | spec
        new = InferenceModelSpec(model_version=version, **values)
        return await self.store.create(InferenceModel(metadata=Metadata(name=name, namespace=NS), spec=new))

    async def train(self, name: str = "train", *, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
        storage = Storage(local_storage=LocalStorage(path=f"/models/{name}"))
        values = {"model_name": "digits", "command": ("train",), "image_repo": "hub/digits", "image_tag": name}
        new = TrainingModelSpec(storage=storage, **({**values, **spec}))
        meta = Metadata(name=name, namespace=NS, annotations=annotations or {})
        return await self.store.create(TrainingModel(metadata=meta, spec=new))

    async def join(self, edge: dict[str, Any], cloud: dict[str, Any], name: str = "joint", **spec: Any) -> None:
        """Each of the two is `{"name": ...}`, or the inline spec of an InferenceModel by its JSON names."""
        sides = {
            field: side if set(side) == {"name"} else {"spec": side}
            for field, side in (("edgeModel", edge), ("cloudModel", cloud))
        }
        value = {"metadata": {"name": name}, "spec": {**sides, **spec}}
        await self.store.resources.create(self.definition(JointInferenceService), NS, value)

    async def change(
        self, type_: type, name: str, *, annotate: dict[str, str | None] | None = None, **spec: Any
    ) -> None:
        """Set fields of the spec (by their JSON names), and annotations; None takes one away."""

        def update(value: dict[str, Any]) -> dict[str, Any]:
            annotations = {**value["metadata"].get("annotations", {}), **(annotate or {})}
            kept = {key: text for key, text in annotations.items() if text is not None}
            metadata = {**value["metadata"], "annotations": kept}
            return {**value, "metadata": metadata, "spec": {**value["spec"], **spec}}

        await self.store.resources.modify(self.definition(type_), NS, name, update)

    async def delete(self, type_: type, name: str) -> None:
        await self.store.resources.delete(self.definition(type_), NS, name, Deletion())

    def definition(self, type_: type) -> Any:
        kind = kind_of(type_)
        found = self.store.resources.definitions.by_kind(kind.api_version, kind.kind)
        assert found is not None
        return found

    # What is seen ---------------------------------------------------------------------------------------------------

    async def get(self, type_: type, name: str) -> Any:
        return await self.store.get(type_, NS, name)

    async def until(self, type_: type, name: str, condition: Callable[[Any], Any], what: str = "") -> Any:
        """The first state of this object that fulfils the condition."""

        async def fulfilled() -> Any:
            try:
                found = await self.get(type_, name)
            except NotFound:
                return None
            return found if condition(found) else None

        return await until(fulfilled, what or f"{type_.__name__} {name}")

    async def until_ready(self, type_: type, name: str) -> Any:
        """The object, once it is Ready for its present generation."""
        return await self.until(type_, name, is_ready, f"{type_.__name__} {name} to be Ready")

    async def events(self) -> list[str]:
        """The reasons of all Events, each as often as it was counted, sorted."""
        found = [msgspec.json.decode(entry.value) for entry in self.store.resources.objects.snapshot("events")]
        return sorted(event["reason"] for event in found for _ in range(event["count"]))

    @property
    def revision(self) -> int:
        """The version of the store: it moves with each write."""
        return self.store.resources.objects.version


async def until(probe: Callable[[], Awaitable[Any]], what: str) -> Any:
    """The first true answer; fails after a generous deadline."""
    end = monotonic() + DEADLINE
    while not (answer := await probe()):
        assert monotonic() < end, f"waited {DEADLINE} s for {what}"
        await asyncio.sleep(0.002)
    return answer


def condition(resource: Any, type_: str) -> Any:
    return next((found for found in resource.status.conditions if found.type == type_), None)


def is_true(resource: Any, type_: str) -> bool:
    found = condition(resource, type_)
    return found is not None and found.status == "True"


def is_ready(resource: Any) -> bool:
    found = condition(resource, "Ready")
    return is_true(resource, "Ready") and bool(found.observed_generation == resource.metadata.generation)


def stalled_for(reason: str) -> Callable[[Any], bool]:
    return lambda resource: is_true(resource, "Stalled") and condition(resource, "Stalled").reason == reason


async def rounds(engine: Engine, count: int) -> None:
    """Wait until every object has been looked at so often again by the resync, and nothing is left to be done."""
    sample = engine.metrics.registry.get_sample_value

    def looked() -> float:
        kinds = (kind.__name__ for kind in KINDS)
        results = ("success", "conflict", "error")
        labels = [{"controller": kind, "result": result} for kind in kinds for result in results]
        return sum(sample("controller_runtime_reconcile_total", label) or 0.0 for label in labels)

    goal = looked() + count

    async def over() -> bool:
        return looked() >= goal and engine.idle

    await until(over, f"{count} reconciliations")


async def nothing_runs_for(stage: Stage, kind: str) -> None:
    async def none() -> bool:
        return not stage.workloads.names(kind)

    await until(none, f"no {kind} to run anything")


_UNSTABLE = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "finishTime",
    "since",
    "startTime",
    "completionTime",
    "modelwright.dev/training-uid",
}
_CHILD = re.compile(r"-(build|serve|train|gateway)-[0-9a-f]{10}")


def inline(layer: str, version: str, **spec: Any) -> dict[str, Any]:
    """The spec of an InferenceModel, by its JSON names."""
    node = {"nodeName": "laptop"} if layer == "edge" else {}
    names = {"modelName": "digits", "deployToLayer": layer, "frameworkType": "onnx", "modelVersion": version}
    return {**names, **node, **spec}


async def end_state(stage: Stage) -> Any:
    """All objects and workloads, without what differs from run to run: uids, versions, times."""
    objects = {}
    kinds: tuple[type[Any], ...] = KINDS
    for kind in kinds:
        for item in (await stage.store.list(kind)).items:
            objects[f"{kind.__name__}/{item.metadata.name}"] = _stable(to_dict(item))
    ours = sorted((found.owner.kind, found.owner.name) for found in stage.workloads.applied.values())
    return objects, ours


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(inner) for key, inner in value.items() if key not in _UNSTABLE}
    if isinstance(value, list):
        return [_stable(inner) for inner in value]
    return _CHILD.sub(r"-\1-HASH", value) if isinstance(value, str) else value
