"""Reads from the logs of Pods how far they are: often while something is under way, now and then afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers import edge_status
from modelwright.adapters.kubernetes.servers.edge_notes import Reading
from modelwright.adapters.kubernetes.servers.gateway_state import GatewayState
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Changed, Pod
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.serving import KeeperState

UNDER_WAY_SECONDS = 1.0
SETTLED_SECONDS = 20.0
AT_ONCE = 4
"""Requests in one look; with two looks a second, 8 a second for all models, and as many for gateways."""
ANSWER_SECONDS = 5.0
UNREAD_SECONDS = 30.0
TAIL_LINES = 20
StateOf = Callable[[bytes], KeeperState | GatewayState | None]


class LogReader:
    """Reads one container of each Pod. `changed` is told whose state is another."""

    def __init__(self, client: KubernetesClient, container: str, state_of: StateOf, changed: Changed) -> None:
        self._client = client
        self._container = container
        self._state_of = state_of
        self._changed = changed

    async def tick(self, now: float, pods: Sequence[tuple[Reading, Pod]]) -> None:
        """Read those whose time has come, who has waited longest first."""
        due = [(reading, pod) for reading, pod in pods if self._is_due(reading, pod, now)]
        due.sort(key=lambda each: each[0].due)
        await asyncio.gather(*(self._read(reading, pod, now) for reading, pod in due[:AT_ONCE]))

    def _is_due(self, reading: Reading, pod: Pod, now: float) -> bool:
        if not any(each.name == self._container and each.state.running for each in pod.status.containers):
            return False
        if reading.pod != pod.metadata.uid:
            reading.pod, reading.state, reading.unread, reading.unread_since = pod.metadata.uid, None, None, 0.0
            reading.due = 0.0
        if reading.version != pod.metadata.resource_version:
            reading.due = min(reading.due, now)
        return reading.due <= now

    async def _read(self, reading: Reading, pod: Pod, now: float) -> None:
        reading.version = pod.metadata.resource_version
        before = (reading.state, reading.unread)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                text = await self._tail(pod)
        except (ModelwrightError, TimeoutError) as error:
            reading.unread_since = reading.unread_since or now
            if now - reading.unread_since >= UNREAD_SECONDS and reading.unread is None:
                said = error.message if isinstance(error, ModelwrightError) else "no answer"
                reading.unread = edge_status.unread_failure(said)
        else:
            reading.unread, reading.unread_since = None, 0.0
            # A container that has just started has said nothing yet: what was known is still the best that is known.
            reading.state = self._state_of(text) or reading.state
        still = edge_status.settled(pod, reading.state)
        reading.due = now + (SETTLED_SECONDS if still or reading.unread is not None else UNDER_WAY_SECONDS)
        if (reading.state, reading.unread) != before:
            self._changed(pod.metadata.labels.owner_uid)

    async def _tail(self, pod: Pod) -> bytes:
        path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
        query: dict[str, str | int] = {"container": self._container, "tailLines": TAIL_LINES}
        return (await self._client.raw("GET", path, query, headers={"Accept": "*/*"})).body
