"""Events of core/v1: equal ones are counted, old ones go when a new one is written."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

from modelwright.adapters.embedded.core import EVENTS
from modelwright.adapters.embedded.editing import key_of
from modelwright.adapters.embedded.history import Key
from modelwright.adapters.embedded.resources import Resources, timestamp
from modelwright.adapters.embedded.transaction import Transaction, decode
from modelwright.ports.clock import Clock
from modelwright.ports.store import Event

Object = dict[str, Any]

KEPT_FOR = timedelta(hours=1)
MOST_KEPT = 5000
SWEEP_EVERY = timedelta(minutes=1)
MESSAGE_LENGTH = 1024
COMPONENT = "modelwright"


class Recorder:
    """Writes Events, and with them sweeps out those that nothing was added to for an hour: idle means no writes."""

    def __init__(self, resources: Resources, clock: Clock) -> None:
        self._resources = resources
        self._clock = clock
        self._swept: datetime | None = None

    async def record(self, event: Event) -> None:
        """Write an Event, or count it if its like is there. Raises NotFound, Forbidden (its namespace), Unavailable."""
        await self._resources.objects.write(lambda transaction: self._record(transaction, event))

    def _record(self, transaction: Transaction, event: Event) -> None:
        now = self._clock.now()
        for key in self._expired(transaction, now):
            transaction.remove(key)
        name = name_of(event)
        key = key_of(EVENTS, event.namespace, name)
        entry = transaction.get(key)
        if entry is None:
            value = _new(event, name, timestamp(now))
            self._resources.editor(transaction).create(EVENTS, event.namespace, value)
            return
        counted = decode(entry)
        counted["count"] = counted.get("count", 1) + 1
        counted["lastTimestamp"] = timestamp(now)
        transaction.put(key, counted)

    def _expired(self, transaction: Transaction, now: datetime) -> list[Key]:
        """What is too old, and beyond the newest `MOST_KEPT` the oldest."""
        if self._swept is not None and now - self._swept < SWEEP_EVERY:
            return []
        self._swept = now
        keys = transaction.keys(EVENTS.resource)
        ages = sorted((now - _last(decode(entry)), key) for key in keys if (entry := transaction.get(key)) is not None)
        return [key for number, (age, key) in enumerate(ages) if age > KEPT_FOR or number >= MOST_KEPT]


def name_of(event: Event) -> str:
    """The same name for what is to be counted together."""
    parts = (event.api_version, event.kind, event.uid, event.type, event.reason, event.message)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
    return f"{event.name[:230].rstrip('.-')}.{digest}"


def _new(event: Event, name: str, now: str) -> Object:
    about = {"apiVersion": event.api_version, "kind": event.kind, "namespace": event.namespace}
    about |= {"name": event.name, "uid": event.uid}
    # Names of files may hold bytes that are no text; Python keeps them as surrogates, which JSON has no way to say.
    message = event.message.encode("utf-8", "replace").decode()
    if len(message) > MESSAGE_LENGTH:
        message = message[: MESSAGE_LENGTH - 3] + "..."
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": about,
        "type": event.type,
        "reason": event.reason,
        "message": message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _last(value: Object) -> datetime:
    times = (value.get("lastTimestamp"), value.get("eventTime"), value["metadata"]["creationTimestamp"])
    for text in times:
        try:
            moment = datetime.fromisoformat(text or "")
        except ValueError:
            continue
        if moment.tzinfo is not None:
            return moment
    raise AssertionError("the server writes creationTimestamp")
