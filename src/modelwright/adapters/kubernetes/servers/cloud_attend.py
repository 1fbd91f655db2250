"""What is found out beside the mirrors, of Pods in the cloud that are not ready: how far a download is, and which
Events say why nothing begins. It asks little, of few at a time, and of none that is ready within two seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from modelwright.adapters.kubernetes.servers import server_events
from modelwright.adapters.kubernetes.servers.cloud_pod import FETCH
from modelwright.adapters.kubernetes.servers.cloud_status import NOTHING, Hint, fetching
from modelwright.adapters.kubernetes.servers.part import Place
from modelwright.adapters.kubernetes.workloads import logs, progress_lines, waiting
from modelwright.adapters.kubernetes.workloads.kinds import Pod
from modelwright.ports.errors import ModelwrightError

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
QUIET_SECONDS = 2.0
POLL_SECONDS = 3.0
NOT_STARTED_SECONDS = 5.0
DIAGNOSE_SECONDS = 20.0
REQUESTS_A_TICK = 8
TAIL_LINES = 20


@dataclass(slots=True)
class _Note:
    look_at: float
    hint: Hint = NOTHING


class CloudAttendant:
    """Looks each second at the Pods that `open_pods` names: those that are not ready."""

    def __init__(self, place: Place, open_pods: Callable[[], Iterable[Pod]]) -> None:
        self._place = place
        self._open = open_pods
        self._notes: dict[str, _Note] = {}
        self.hints: dict[str, Hint] = {}
        """By the UID of the Pod."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._tick(asyncio.get_running_loop().time())
            except ModelwrightError as error:
                log.warning("looking after servers: %s", error.message)
            except Exception:  # what cannot be found out now keeps nothing from going on
                log.exception("looking after servers: unexpected error")

    async def _tick(self, now: float) -> None:
        pods = {pod.metadata.uid: pod for pod in self._open()}
        for uid in self._notes.keys() - pods.keys():
            del self._notes[uid]
            self.hints.pop(uid, None)
        asking: list[Awaitable[None]] = []
        for uid, pod in pods.items():
            note = self._notes.setdefault(uid, _Note(now + QUIET_SECONDS))
            if note.look_at > now or len(asking) == REQUESTS_A_TICK:
                continue
            note.look_at = now + max(POLL_SECONDS, TICK_SECONDS * len(pods) / REQUESTS_A_TICK)
            question = self._question(pod, note, now)
            if question is not None:
                asking.append(question)
        await asyncio.gather(*asking)

    def _question(self, pod: Pod, note: _Note, now: float) -> Awaitable[None] | None:
        if fetching(pod):
            return self._poll(pod, note)
        created = pod.metadata.creation_timestamp
        if waiting.started(pod) or not pod.spec.node_name or created is None:
            self._place.changed(pod.metadata.labels.owner_uid)  # some of what a Pod says counts only after a while
            return None
        if (self._place.clock.now() - created).total_seconds() < NOT_STARTED_SECONDS:
            return None
        note.look_at = now + DIAGNOSE_SECONDS
        return self._diagnose(pod, note)

    async def _poll(self, pod: Pod, note: _Note) -> None:
        lines = await logs.last_lines(self._place.client, pod, FETCH, TAIL_LINES)
        progress = progress_lines.last_progress(lines)
        if progress is not None and progress != note.hint.progress:
            self._say(pod, note, Hint(progress=progress))

    async def _diagnose(self, pod: Pod, note: _Note) -> None:
        found = await server_events.pod_failure(self._place.client, pod)
        before = note.hint.failure
        # The same fault is told in ever new words: the first ones stay.
        if found is not None and (before is None or before.reason != found.reason):
            self._say(pod, note, Hint(failure=found))

    def _say(self, pod: Pod, note: _Note, hint: Hint) -> None:
        note.hint = self.hints[pod.metadata.uid] = hint
        self._place.changed(pod.metadata.labels.owner_uid)
