"""Make a Plan true: children, workloads, status, Events, in the order that survives a crash after any step."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from modelwright.engine.cache import Cache
from modelwright.ports.errors import AlreadyExists, ModelwrightError
from modelwright.ports.store import Event, Store
from modelwright.ports.workloads import Workloads
from modelwright.reconcile.conditions import transitions
from modelwright.reconcile.plan import Notice, Plan

log = logging.getLogger(__name__)


class Applier:
    """Applies the plan for one resource. Every step may be repeated; none writes what is already so."""

    def __init__(self, store: Store, workloads: Workloads, caches: dict[type, Cache[Any]]) -> None:
        self._store = store
        self._workloads = workloads
        self._caches = caches

    async def apply(self, resource: Any, plan: Plan) -> None:
        """Children first, the status after what it reports, and only then remove what is no longer wanted:

        a task that has ended is forgotten once its result stands in the status, never before.
        """
        await self._create_children(plan)
        resource = await self._own(resource, plan)
        for workload in plan.workloads:
            await self._workloads.apply(workload)
        before = resource.status
        if plan.status is not None and plan.status != before:
            await self._write_status(resource, plan.status)
            await self._tell(resource, transitions(before.conditions, plan.status.conditions, warn=plan.warn))
        await self._tell(resource, plan.notices)
        await self._remove_others(resource, plan)

    async def _create_children(self, plan: Plan) -> None:
        for child in plan.create:
            try:
                created = await self._store.create(child)
            except AlreadyExists:
                continue  # somebody was quicker, or our cache is behind: the next reconciliation sees it
            self._caches[type(created)].wrote(created)

    async def _own(self, resource: Any, plan: Plan) -> Any:
        """Give the resource its owner reference, beside those that it has."""
        references = resource.metadata.owner_references
        if plan.owner is None or any(reference.uid == plan.owner.uid for reference in references):
            return resource
        metadata = msgspec.structs.replace(resource.metadata, owner_references=(*references, plan.owner))
        return await self._wrote(self._store.update_metadata(msgspec.structs.replace(resource, metadata=metadata)))

    async def _write_status(self, resource: Any, status: Any) -> None:
        await self._wrote(self._store.update_status(msgspec.structs.replace(resource, status=status)))

    async def _wrote(self, write: Any) -> Any:
        resource = await write
        self._caches[type(resource)].wrote(resource)
        return resource

    async def _remove_others(self, resource: Any, plan: Plan) -> None:
        wanted = {workload.name for workload in plan.workloads} | plan.keep
        uid = resource.metadata.uid
        for status in await self._workloads.observe(uid):
            if status.name not in wanted:
                await self._workloads.remove(uid, status.name)

    async def _tell(self, resource: Any, notices: tuple[Notice, ...]) -> None:
        for notice in notices:
            event = event_about(resource, notice)
            try:
                await self._store.record(event)
            except ModelwrightError as error:  # an Event tells a story; losing one loses nothing else
                log.warning("event %s of %s/%s: %s", notice.reason, event.namespace, event.name, error.message)


def event_about(resource: Any, notice: Notice) -> Event:
    """The Event that carries a notice about this resource."""
    return Event(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.metadata.namespace,
        name=resource.metadata.name,
        uid=resource.metadata.uid,
        type=notice.type,
        reason=notice.reason,
        message=notice.message,
    )
