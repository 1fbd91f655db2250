"""What is found out beside the mirrors, of Tasks that have not ended: how far they are, and what holds them up.

It asks little, of few at a time, and of none that is done within two seconds: a thousand builds that take no time
cost nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
from modelwright.adapters.kubernetes.workloads import events, logs, progress_lines, status, waiting
from modelwright.adapters.kubernetes.workloads.kinds import PODS, Changed, Job, Pod
from modelwright.adapters.kubernetes.workloads.render_native import CONTAINER
from modelwright.adapters.kubernetes.workloads.tasks import Key, Mirrors, Note, Tasks
from modelwright.ports.errors import ModelwrightError
from modelwright.ports.workloads import Failure, Owner

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
QUIET_SECONDS = 2.0
"""How long a build runs before anybody asks how far it is, and a Job has ended before its Pod is asked for."""
POLL_SECONDS = 3.0
REQUESTS_A_TICK = 8
NO_POD_SECONDS = 15.0
NOT_STARTED_SECONDS = 5.0
DIAGNOSE_SECONDS = 20.0
REFUSED_SECONDS = 5.0
TAIL_LINES = 20


class Attendant:
    """Looks at the open Tasks each second. `changed` is told the UID of each owner of whom there is news, `retry` whom
    nothing could be made for yet."""

    def __init__(
        self, client: KubernetesClient, mirrors: Mirrors, tasks: Tasks, changed: Changed, retry: Callable[[Owner], None]
    ) -> None:
        self._client = client
        self._mirrors = mirrors
        self._tasks = tasks
        self._changed = changed
        self._retry = retry
        self._retry_at = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._tick(asyncio.get_running_loop().time())
            except ModelwrightError as error:
                log.warning("looking after builds: %s", error.message)
            except Exception:  # what cannot be found out now keeps nothing from going on
                log.exception("looking after builds: unexpected error")

    async def _tick(self, now: float) -> None:
        if now >= self._retry_at:
            self._retry_at = now + REFUSED_SECONDS
            for owner, _ in self._tasks.refused.values():
                self._retry(owner)
        asking: list[Awaitable[None]] = []
        for key, note in list(self._tasks.open.items()):
            if note.look_at > now:
                continue
            if len(asking) == REQUESTS_A_TICK:
                break
            question = self._question(key, note, now)
            if question is not None:
                asking.append(question)
        await asyncio.gather(*asking)

    def _question(self, key: Key, note: Note, now: float) -> Awaitable[None] | None:
        """What to ask of this Task now, if anything; when to look at it again."""
        uid, name = key
        parts = self._tasks.parts(uid).get(name)
        if parts is None and key not in self._tasks.refused:
            self._tasks.forget(key)
            return None
        note.look_at = now + QUIET_SECONDS
        if parts is None:
            return None
        if parts.job is None:
            self._changed(uid)  # that a claim is not bound counts only after a while
            return None
        job, pod = parts.job, parts.pod
        if note.lost and note.about == job.metadata.uid:
            return None
        if status.awaits_pod(job, pod):
            return self._after(note, now, lambda: self._find_pod(uid, note, job))
        if pod is None:
            return self._diagnose(uid, note, now, job, NO_POD_SECONDS, events.job_failure)
        if waiting.started(pod):
            return self._after(note, now, lambda: self._poll(uid, note, pod, now))
        note.since = 0.0
        if pod.spec.node_name:
            read = partial(events.pod_failure, volume=parts.volume, node=pod.spec.node_name)
            return self._diagnose(uid, note, now, pod, NOT_STARTED_SECONDS, read)
        self._changed(uid)  # some of what a Pod says of itself counts only after a while
        return None

    def _after(self, note: Note, now: float, ask: Callable[[], Awaitable[None]]) -> Awaitable[None] | None:
        """Ask, but only if it has been so for a while."""
        note.since = note.since or now
        return ask() if now - note.since >= QUIET_SECONDS else None

    async def _find_pod(self, uid: str, note: Note, job: Job) -> None:
        where = Selection(job.metadata.namespace, labels=f"batch.kubernetes.io/controller-uid={job.metadata.uid}")
        found, _ = await self._client.list_bytes(PODS, where)
        for data in found:
            self._mirrors.pods.wrote(self._mirrors.pods.decode(data))
        note.about, note.lost = job.metadata.uid, not found
        self._changed(uid)

    async def _poll(self, uid: str, note: Note, pod: Pod, now: float) -> None:
        note.look_at = now + max(POLL_SECONDS, TICK_SECONDS * len(self._tasks.open) / REQUESTS_A_TICK)
        if not any(each.name == CONTAINER and each.state.running for each in pod.status.containers):
            return
        progress = progress_lines.last_progress(await logs.last_lines(self._client, pod, CONTAINER, TAIL_LINES))
        if progress is not None and progress != note.progress:
            note.progress = progress
            self._changed(uid)

    def _diagnose(
        self,
        uid: str,
        note: Note,
        now: float,
        about: Job | Pod,
        patience: float,
        read: Callable[[KubernetesClient, str, str], Awaitable[Failure | None]],
    ) -> Awaitable[None] | None:
        created = about.metadata.creation_timestamp
        if created is None or (self._tasks.clock.now() - created).total_seconds() < patience:
            return None
        note.look_at = now + DIAGNOSE_SECONDS
        return self._read_events(uid, note, about, read)

    async def _read_events(
        self,
        uid: str,
        note: Note,
        about: Job | Pod,
        read: Callable[[KubernetesClient, str, str], Awaitable[Failure | None]],
    ) -> None:
        found = await read(self._client, about.metadata.namespace, about.metadata.uid)
        before = note.hint if note.about == about.metadata.uid else None
        # The same fault is told in ever new words: the first ones stay.
        if found is not None and (before is None or before.reason != found.reason):
            note.about, note.hint = about.metadata.uid, found
            self._changed(uid)
