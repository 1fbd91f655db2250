"""Writes core/v1 Events; equal ones are counted, not repeated."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Any

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.resource import EVENTS
from modelwright.ports.errors import AlreadyExists, NotFound
from modelwright.ports.store import Event

REMEMBERED = 4096
MAX_MESSAGE = 1024
MAX_NAME = 253


class EventRecorder:
    """Records Events for one component; remembers how often, so that a repetition is a single patch."""

    def __init__(self, client: KubernetesClient, component: str) -> None:
        self._client = client
        self._component = component
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()

    async def record(self, event: Event, happened: datetime | None = None) -> None:
        """Create the Event, or count it up if it is there; it happened just now, if nothing else is said.

        Raises what the client raises.
        """
        when = _text(happened or datetime.now(UTC))
        namespace, name = event.namespace or "default", event_name(event)
        key = (namespace, name)
        if key not in self._counts:
            if await self._created(event, namespace, name, when):
                return
            existing = await self._client.get(EVENTS, namespace, name)
            self._remember(key, int(existing.get("count") or 1))
        count = self._counts[key] + 1
        try:
            await self._client.merge_patch(EVENTS, namespace, name, {"count": count, "lastTimestamp": when})
        except NotFound:  # Events expire
            self._counts.pop(key, None)
            await self._created(event, namespace, name, when)
        else:
            self._remember(key, count)

    async def _created(self, event: Event, namespace: str, name: str, when: str) -> bool:
        try:
            await self._client.create(EVENTS, namespace, self._body(event, namespace, name, when))
        except AlreadyExists:
            return False
        self._remember((namespace, name), 1)
        return True

    def _remember(self, key: tuple[str, str], count: int) -> None:
        self._counts[key] = count
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def _body(self, event: Event, namespace: str, name: str, when: str) -> JSON:
        involved: dict[str, Any] = {
            "apiVersion": event.api_version,
            "kind": event.kind,
            "namespace": event.namespace,
            "name": event.name,
            "uid": event.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:MAX_MESSAGE],
            "count": 1,
            "firstTimestamp": when,
            "lastTimestamp": when,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }


def event_name(event: Event) -> str:
    """The same for equal Events about the same object, so that who counts need not search."""
    parts = "\0".join((event.uid, event.type, event.reason, event.message))
    digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
    return f"{event.name[: MAX_NAME - 17].rstrip('.-')}.{digest}"


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
