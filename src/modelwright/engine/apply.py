"""Make a Plan true: children, workloads, status, Events, in the order that survives a crash after any step."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from modelwright.api.meta import OwnerReference
from modelwright.engine.cache import Cache, key_of
from modelwright.ports.clock import Clock
from modelwright.ports.errors import AlreadyExists, Conflict, ModelwrightError, NotFound
from modelwright.ports.store import Event, Store
from modelwright.ports.workloads import Workloads
from modelwright.reconcile.conditions import transitions
from modelwright.reconcile.plan import Notice, Plan
from modelwright.reconcile.refusals import refused

Decide = Callable[[Any], Awaitable[Plan]]

log = logging.getLogger(__name__)


class Applier:
    """Applies the plan for one resource. Every step may be repeated; none writes what is already so."""

    def __init__(self, store: Store, workloads: Workloads, caches: dict[type, Cache[Any]], clock: Clock) -> None:
        self._store = store
        self._workloads = workloads
        self._caches = caches
        self._clock = clock

    async def apply(self, resource: Any, decide: Decide) -> Plan:
        """Decide, and make it so; the plan that was made true.

        Children first, the status after what it reports, and only then remove what is no longer wanted, children too:
        a task that has ended is forgotten once its result stands in the status, never before.
        """
        plan = await decide(resource)
        if plan.untouched:
            return plan
        await self._make_children(resource, plan)
        resource = await self._own(resource, plan)
        plan = await self._run(resource, plan, decide)
        await self._write_status(resource, plan.status, warn=plan.warn)
        await self._tell(resource, plan.notices)
        await self._remove_others(resource, plan)
        await self._delete_children(plan)
        return plan

    # Children -------------------------------------------------------------------------------------------------------

    async def _make_children(self, resource: Any, plan: Plan) -> None:
        """Create what is missing, and give what is there the spec that it should have."""
        try:
            for child in plan.create:
                await self._create(child)
            for child in plan.update:
                await self._update(child)
        except Conflict:
            raise
        except ModelwrightError as error:
            await self._say_why_not(resource, plan, error)
            raise

    async def _create(self, child: Any) -> None:
        try:
            created = await self._store.create(child)
        except AlreadyExists:
            return  # somebody was quicker, or our cache is behind: the next reconciliation sees it
        self._caches[type(created)].wrote(created)

    async def _update(self, child: Any) -> None:
        seen = self._caches[type(child)].get(*key_of(child))
        if seen is None or seen.metadata.uid != child.metadata.uid or seen.spec != child.spec:
            await self._wrote(self._store.update_spec(child))

    async def _delete_children(self, plan: Plan) -> None:
        for child in plan.delete:
            if child.metadata.deletion_timestamp is not None:
                continue  # it is going already, and waits for somebody's finalizer
            try:
                await self._store.delete(child)
            except NotFound:
                continue

    async def _run(self, resource: Any, plan: Plan, decide: Decide) -> Plan:
        """Apply the workloads and decide again on what is seen then.

        A status is about what has been applied: never Ready for what ran before it.
        """
        applied: tuple[Any, ...] = ()
        while plan.workloads != applied:
            for workload in plan.workloads:
                try:
                    await self._workloads.apply(workload)
                except ModelwrightError as error:
                    await self._say_why_not(resource, plan, error)
                    raise
            applied = plan.workloads
            plan = await decide(resource)
        return plan

    # The resource itself --------------------------------------------------------------------------------------------

    async def _own(self, resource: Any, plan: Plan) -> Any:
        """Give the resource its owner reference, beside those that it has."""
        references = resource.metadata.owner_references
        if plan.owner is None or any(reference.uid == plan.owner.uid for reference in references):
            return resource
        await self._check_owner(resource.metadata.namespace, plan.owner)
        metadata = msgspec.structs.replace(resource.metadata, owner_references=(*references, plan.owner))
        try:
            return await self._wrote(self._store.update_metadata(msgspec.structs.replace(resource, metadata=metadata)))
        except Conflict:
            raise
        except ModelwrightError as error:
            await self._say_why_not(resource, plan, error)
            raise

    async def _check_owner(self, namespace: str, owner: OwnerReference) -> None:
        """Ask the store itself: an owner that is gone, or goes, would take the resource with it."""
        kind = next(kind for kind in self._caches if kind.__name__ == owner.kind)
        try:
            found: Any = await self._store.get(kind, namespace, owner.name)
        except NotFound as error:
            raise Conflict(f"{owner.kind} {owner.name} has gone: deciding anew") from error
        if found.metadata.uid != owner.uid or found.metadata.deletion_timestamp is not None:
            raise Conflict(f"{owner.kind} {owner.name} is going, or is another by now: deciding anew")

    async def _write_status(self, resource: Any, status: Any, *, warn: bool) -> None:
        before = resource.status
        if status is None or status == before:
            return
        await self._wrote(self._store.update_status(msgspec.structs.replace(resource, status=status)))
        await self._tell(resource, transitions(before.conditions, status.conditions, warn=warn))

    async def _wrote(self, write: Awaitable[Any]) -> Any:
        try:
            resource = await write
        except NotFound as error:
            raise Conflict(f"{error.message}: deleted meanwhile") from error
        self._caches[type(resource)].wrote(resource)
        return resource

    async def _say_why_not(self, resource: Any, plan: Plan, error: ModelwrightError) -> None:
        """A refusal is for the user to read, not for the log alone. The error goes on, whether it can be said or not.

        One that differs from the last in its words only is not written: each write would bring the next try forward.
        """
        before = resource.status
        status = refused(resource, plan.status or before, error, self._clock.now())
        said = before.observed_generation == status.observed_generation
        if said and not transitions(before.conditions, status.conditions):
            return
        try:
            await self._write_status(resource, status, warn=True)
        except ModelwrightError as fault:
            log.warning("status of %s/%s: %s", resource.metadata.namespace, resource.metadata.name, fault.message)

    # The rest -------------------------------------------------------------------------------------------------------

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
