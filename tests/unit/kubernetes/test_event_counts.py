"""An Event that happens again is counted up once for each time, however often that has to be tried."""

from __future__ import annotations

from typing import Any, cast

import pytest

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.events import EventRecorder
from modelwright.ports.errors import Unavailable
from modelwright.ports.store import Event

pytestmark = pytest.mark.anyio
EVENT = Event("v1", "ConfigMap", "default", "a", "uid-1", "Normal", "Built", "done")


class Server:
    """Takes what is new, and is away for what is counted up as long as `away` says."""

    def __init__(self) -> None:
        self.away = 0
        self.counts: list[int] = []

    async def create(self, resource: object, namespace: str, body: dict[str, Any]) -> None:
        self.counts.append(body["count"])

    async def merge_patch(self, resource: object, namespace: str, name: str, patch: dict[str, Any]) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("the API server does not answer")
        self.counts.append(patch["count"])


async def test_what_could_not_be_counted_is_not_counted_twice() -> None:
    server = Server()
    recorder = EventRecorder(cast("KubernetesClient", server), "test")
    await recorder.record(EVENT)
    server.away = 2
    for _ in range(2):
        with pytest.raises(Unavailable):
            await recorder.record(EVENT)
    await recorder.record(EVENT)
    await recorder.record(EVENT)
    assert server.counts == [1, 2, 3]
