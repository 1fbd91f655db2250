"""The Tasks that there are, by owner and name, put together from the mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import kinds, labels, status
from modelwright.adapters.kubernetes.workloads.kinds import Job, PersistentVolume, PersistentVolumeClaim, Pod, going
from modelwright.adapters.kubernetes.workloads.mirror import Mirror
from modelwright.ports.workloads import Failure, Owner, Progress, TaskStatus

Key = tuple[str, str]
"""The owner's UID and the Task's name."""


@dataclass(slots=True)
class Note:
    """What is known of a Task beside its objects, while this process runs. Times are those of the event loop.

    `hint` and `lost` were found out about the object with the UID `about`, and say nothing of a later one.
    """

    progress: Progress | None = None
    about: str = ""
    hint: Failure | None = None
    lost: bool = False
    since: float = 0.0
    look_at: float = 0.0


@dataclass(slots=True)
class Parts:
    """The objects of one Task. `pods` are those of this very Job."""

    job: Job | None = None
    claim: PersistentVolumeClaim | None = None
    volume: PersistentVolume | None = None
    pods: list[Pod] = field(default_factory=list)

    @property
    def pod(self) -> Pod | None:
        return status.pod_of(self.pods)

    @property
    def live(self) -> tuple[bool, bool, bool]:
        """Which of Job, claim and volume are there, and not going."""
        return not going(self.job), not going(self.claim), not going(self.volume)


class Mirrors:
    """One for each kind; `changed` is called with the UID of each owner whose objects have changed.

    Where no volumes are made there is no right to list them either, and that mirror stays empty.
    """

    def __init__(self, client: KubernetesClient, changed: kinds.Changed, *, volumes: bool = True) -> None:
        self.jobs = Mirror(client, kinds.JOBS, Job, changed)
        self.pods = Mirror(client, kinds.PODS, Pod, changed)
        self.claims = Mirror(client, kinds.CLAIMS, PersistentVolumeClaim, changed)
        self.volumes = Mirror(client, kinds.VOLUMES, PersistentVolume, changed)
        self.all: tuple[Mirror[Any], ...] = (self.jobs, self.pods, self.claims)
        if volumes:
            self.all += (self.volumes,)

    async def filled(self) -> None:
        """Wait until all have been listed once."""
        for mirror in self.all:
            await mirror.synced.wait()


class Tasks:
    """Reads mirrors and notes; `open` are the Tasks that have not ended."""

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self.open: dict[Key, Note] = {}
        self.refused: dict[Key, tuple[Owner, Failure]] = {}
        """Tasks of which nothing can be made yet."""

    def parts(self, uid: str) -> dict[str, Parts]:
        """The objects of this owner by Task; a Task all of whose objects are going is gone."""
        found: dict[str, Parts] = {}
        for job in self._mirrors.jobs.of(uid):
            found[job.metadata.name] = Parts(job=job)
        for claim in self._mirrors.claims.of(uid):
            found.setdefault(claim.metadata.name, Parts()).claim = claim
        for volume in self._mirrors.volumes.of(uid):
            found.setdefault(labels.task_of(volume), Parts()).volume = volume
        for pod in self._mirrors.pods.of(uid):
            parts = found.get(labels.task_of(pod))
            if parts is not None and parts.job is not None and parts.job.metadata.uid == pod.metadata.labels.job_uid:
                parts.pods.append(pod)
        return {name: parts for name, parts in found.items() if any(parts.live)}

    def statuses(self, uid: str) -> tuple[TaskStatus, ...]:
        """How this owner's Tasks are doing, sorted by name."""
        return tuple(status for status, _ in self.seen(uid))

    def seen(self, uid: str) -> tuple[tuple[TaskStatus, tuple[bool, bool, bool]], ...]:
        """The statuses, each with which of its objects live."""
        parts = self.parts(uid)
        names = parts.keys() | {name for owner, name in self.refused if owner == uid} if self.refused else parts.keys()
        return tuple((self._status(uid, name, found := parts.get(name, Parts())), found.live) for name in sorted(names))

    def owners(self) -> Iterator[Owner]:
        """Everybody who has objects that are not going, once for each."""
        for mirror in (self._mirrors.jobs, self._mirrors.claims, self._mirrors.volumes):
            for child in mirror.all():
                if not going(child):
                    yield labels.owner_of(child)
        for owner, _ in self.refused.values():
            yield owner

    def forget(self, key: Key) -> None:
        """It is removed."""
        self.open.pop(key, None)
        self.refused.pop(key, None)

    def _status(self, uid: str, name: str, parts: Parts) -> TaskStatus:
        key = (uid, name)
        job = None if going(parts.job) else parts.job
        pod = parts.pod if job is not None else None
        note = self.open.get(key)
        about = pod or job
        known = note is not None and about is not None and note.about == about.metadata.uid
        if job is not None and note is not None and known and note.lost:
            return status.lost(name, job)
        refused = self.refused.get(key)
        hint = refused[1] if refused is not None else note.hint if note is not None and known else None
        progress = note.progress if note is not None else None
        seen = status.task_status(name, job, pod, datetime.now(UTC), progress=progress, hint=hint)
        if seen.phase in ("Succeeded", "Failed"):
            self.open.pop(key, None)
        elif note is None:
            self.open[key] = Note()
        return seen
