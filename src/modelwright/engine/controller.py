"""One controller for each kind: key -> gather -> reconcile -> apply, with retries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from modelwright.engine.apply import Applier, Decide
from modelwright.engine.backoff import Backoff
from modelwright.engine.cache import Cache, ObjectKey
from modelwright.engine.metrics import Metrics
from modelwright.engine.pace import Pace
from modelwright.engine.queue import KeyedQueue
from modelwright.ports.errors import Conflict, ModelwrightError, Retryable

log = logging.getLogger(__name__)

CONFLICT_DELAY = 0.02
"""Seconds before a decision that lost a race is made anew, longer each time in a row that it is lost:
the watch brings the winner's state meanwhile."""


class Controller:
    """Reconciles one kind. `decide` gathers what is and asks the pure reconciler what should be.

    `outlived` is called when an object was deleted while it was being reconciled. With a `pace`, an object that has
    been written to more often is looked at again when it may be.
    """

    def __init__(
        self,
        cache: Cache[Any],
        decide: Decide,
        applier: Applier,
        metrics: Metrics,
        *,
        outlived: Callable[[], None],
        parallel: int = 4,
        pace: Pace[ObjectKey] | None = None,
    ) -> None:
        self.name = cache.type.__name__
        self._cache = cache
        self._decide = decide
        self._applier = applier
        self._metrics = metrics
        self._outlived = outlived
        self._parallel = parallel
        self._queue: KeyedQueue[ObjectKey] = KeyedQueue()
        self._backoff = Backoff()
        self._races = Backoff(base=CONFLICT_DELAY, limit=10.0)
        self._due: dict[ObjectKey, float] = {}
        self._pace = pace
        self._resting: set[ObjectKey] = set()

    @property
    def idle(self) -> bool:
        """Whether nothing is being done, nor waits to be."""
        return self._queue.idle and not self._resting

    def enqueue(self, key: ObjectKey) -> None:
        """Look at this object as soon as possible."""
        self._queue.add(key)
        self._metrics.adds.labels(self.name).inc()
        self._metrics.depth.labels(self.name).set(len(self._queue))

    def enqueue_all(self) -> None:
        """Look at every object of the kind (the resync)."""
        for resource in self._cache.all():
            self.enqueue((resource.metadata.namespace, resource.metadata.name))

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._metrics.depth.labels(self.name).set(len(self._queue))
            try:
                if not self._rests(key):
                    await self._handle(key)
            finally:
                self._queue.done(key)

    def _rests(self, key: ObjectKey) -> bool:
        """Whether it is put off; then it comes again by itself."""
        seconds = self._pace.rest(key, asyncio.get_running_loop().time()) if self._pace is not None else 0.0
        if not seconds or self._cache.get(*key) is None:
            self._resting.discard(key)
            return False
        self._resting.add(key)
        self._queue.add_after(key, seconds)
        return True

    async def _handle(self, key: ObjectKey) -> None:
        """Reconcile one object; whatever goes wrong with it stays with it."""
        began = time.perf_counter()
        try:
            requeue_after = await self._reconcile(key)
        except Conflict:
            self._queue.add_after(key, self._races.next(key))
            self._metrics.reconciles.labels(self.name, "conflict").inc()
            return
        except ModelwrightError as error:
            self._failed(key, error.message, after=error.after if isinstance(error, Retryable) else None)
            return
        except Exception:  # one bad object must never stop the others
            log.exception("%s %s/%s: unexpected error", self.name, *key)
            self._failed(key, "unexpected error", after=None)
            return
        self._reset(key)
        if requeue_after is not None:
            self._queue.add_after(key, requeue_after)
        self._metrics.reconciles.labels(self.name, "success").inc()
        self._metrics.seconds.labels(self.name).observe(time.perf_counter() - began)

    async def _reconcile(self, key: ObjectKey) -> float | None:
        resource = self._cache.get(*key)
        if resource is None:
            self._queue.forget(key)
            if self._pace is not None:
                self._pace.forget(key)
            return None
        try:
            plan = await self._applier.apply(resource, self._decide)
        finally:
            now = self._cache.get(*key)
            if now is None or now.metadata.uid != resource.metadata.uid:
                self._outlived()  # deleted meanwhile: what we have just started, or began to, runs for nobody
            elif self._pace is not None and now.metadata.resource_version != resource.metadata.resource_version:
                self._pace.wrote(key, asyncio.get_running_loop().time())
        return plan.requeue_after

    def _reset(self, key: ObjectKey) -> None:
        self._backoff.reset(key)
        self._races.reset(key)
        self._due.pop(key, None)

    def _pause(self, key: ObjectKey) -> float:
        """Seconds to wait after a failure: they grow with the time for which it fails, not with how often it is tried.

        A change, our own word of the failure too, has it tried before its time: many failures in one second are one.
        """
        now = asyncio.get_running_loop().time()
        if self._due.get(key, now) <= now:
            self._due[key] = now + self._backoff.next(key)
        return self._due[key] - now

    def _failed(self, key: ObjectKey, message: str, *, after: float | None) -> None:
        delay = max(self._pause(key), after or 0.0)
        log.warning("%s %s/%s: %s (again in %.1f s)", self.name, *key, message, delay)
        self._queue.add_after(key, delay)
        self._metrics.errors.labels(self.name).inc()
        self._metrics.reconciles.labels(self.name, "error").inc()
