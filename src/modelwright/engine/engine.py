"""The engine: caches and controllers for all kinds, what wakes whom, and resync."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from modelwright.api.inference_model import InferenceModel
from modelwright.api.joint_inference_service import JointInferenceService
from modelwright.api.model import Model
from modelwright.api.model_version import ModelVersion
from modelwright.api.training_model import TrainingModel
from modelwright.engine.apply import Applier, Decide
from modelwright.engine.backoff import Backoff
from modelwright.engine.cache import Cache, ObjectKey, key_of
from modelwright.engine.controller import Controller
from modelwright.engine.gather import Gatherer
from modelwright.engine.indexes import INDEXES
from modelwright.engine.metrics import Metrics
from modelwright.engine.orphans import OrphanSweeper
from modelwright.engine.pace import Pace
from modelwright.engine.related import Relations
from modelwright.ports.clock import Clock
from modelwright.ports.store import Store
from modelwright.ports.workloads import Owner, Workloads

RESYNC_SECONDS = 600.0
MODEL_BURST, MODEL_SECONDS = 5, 5.0
"""A Model only sums up: five changes of its status may follow one another, then one each five seconds."""
KINDS: tuple[type, ...] = (Model, ModelVersion, InferenceModel, TrainingModel, JointInferenceService)

log = logging.getLogger(__name__)


class Engine:
    """Keeps what runs in step with what the store says, until cancelled."""

    def __init__(
        self,
        store: Store,
        workloads: Workloads,
        clock: Clock,
        *,
        metrics: Metrics | None = None,
        resync_seconds: float = RESYNC_SECONDS,
        parallel: int = 4,
    ) -> None:
        """`parallel` objects of each kind are reconciled at once at most."""
        self.metrics = metrics or Metrics()
        self._workloads = workloads
        self._resync_seconds = resync_seconds
        self._caches: dict[type, Cache[Any]] = {kind: Cache(store, kind, INDEXES.get(kind)) for kind in KINDS}
        self._relations = Relations(self._caches)
        self._applier = Applier(store, workloads, self._caches, clock)
        self._sweeper = OrphanSweeper(workloads, self._alive)
        self._controllers = {kind: self._controller(kind, clock, parallel) for kind in KINDS}
        for kind in KINDS:
            self._caches[kind].listen(self._on_change)

    @property
    def unfilled(self) -> tuple[str, ...]:
        """The kinds whose objects have not all been listed yet; nothing is reconciled before this is empty."""
        return tuple(kind.__name__ for kind, cache in self._caches.items() if not cache.synced.is_set())

    @property
    def idle(self) -> bool:
        """Whether all caches are filled and nothing is being reconciled, nor waits to be."""
        return not self.unfilled and all(controller.idle for controller in self._controllers.values())

    async def run(self) -> None:
        """Run until cancelled. Nothing is reconciled before all caches are filled: what is missing could be there."""
        async with asyncio.TaskGroup() as group:
            for cache in self._caches.values():
                group.create_task(cache.run())
            for cache in self._caches.values():
                await cache.synced.wait()
            group.create_task(self._follow_workloads())
            group.create_task(self._sweeper.run())
            group.create_task(self._resync())
            for controller in self._controllers.values():
                group.create_task(controller.run())

    def _controller(self, kind: type, clock: Clock, parallel: int) -> Controller:
        gatherer = Gatherer(self._caches, self._workloads, clock)
        decide: dict[type, Decide] = {
            Model: gatherer.model,
            ModelVersion: gatherer.model_version,
            InferenceModel: gatherer.inference_model,
            TrainingModel: gatherer.training_model,
            JointInferenceService: gatherer.joint_inference_service,
        }
        cache, look = self._caches[kind], self._sweeper.look
        pace: Pace[ObjectKey] | None = Pace(MODEL_BURST, MODEL_SECONDS) if kind is Model else None
        return Controller(cache, decide[kind], self._applier, self.metrics, outlived=look, parallel=parallel, pace=pace)

    # What wakes whom ------------------------------------------------------------------------------------------------

    def _on_change(self, before: Any, after: Any) -> None:
        if after is not None:
            self._wake_all(after)
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._wake_all(before)
            self._sweeper.look()

    def _wake_all(self, resource: Any) -> None:
        """Have the resource looked at, and who has to do with it."""
        self._controllers[type(resource)].enqueue(key_of(resource))
        for kind, keys in self._relations.of(resource):
            for key in keys:
                self._controllers[kind].enqueue(key)

    async def _follow_workloads(self) -> None:
        """Wake the owners of workloads that change. What changed while nobody followed is seen by looking at all."""
        backoff = Backoff(base=0.1, limit=10.0)
        while True:
            try:
                changes = self._workloads.changes()
                self._look_at_all()
                async for owner in changes:
                    self._wake(owner)
                    backoff.reset("workloads")
            except Exception as error:
                log.warning("watch of workloads: %s", error)
            await asyncio.sleep(backoff.next("workloads"))

    def _wake(self, owner: Owner) -> None:
        kind = next((kind for kind in KINDS if kind.__name__ == owner.kind), None)
        if kind is not None:
            self._controllers[kind].enqueue((owner.namespace, owner.name))

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_seconds)
            self._look_at_all()

    def _look_at_all(self) -> None:
        for controller in self._controllers.values():
            controller.enqueue_all()

    def _alive(self) -> set[str]:
        """The UIDs of all that exists, whether it can be read or not."""
        readable = {resource.metadata.uid for cache in self._caches.values() for resource in cache.all()}
        return readable.union(*(cache.unreadable for cache in self._caches.values()))
