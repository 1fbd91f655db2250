"""The Tasks that there are, by owner and name, put together from the mirrors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.workloads import kinds, labels, status, waiting
from modelwright.adapters.kubernetes.workloads.kinds import (
    Job,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    controller,
    going,
)
from modelwright.adapters.kubernetes.workloads.mirror import Mirror
from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock
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
    """Reads mirrors and notes; `open` are the Tasks that have not ended.

    Whoever may write Jobs in some namespace can give them any label. So an owner's Tasks are put together from its own
    namespace alone, and before `know` has told which that is, nothing is believed of them but that they are there.
    """

    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors
        self._known: dict[str, Owner] = {}
        self.clock = ServerClock()
        self.open: dict[Key, Note] = {}
        self.refused: dict[Key, tuple[Owner, Failure]] = {}
        """Tasks of which nothing can be made yet."""
        self.leaves: Callable[[Key], bool] = lambda _: False
        """Whether a Task counts as removed although its objects are still there."""

    def know(self, owner: Owner) -> bool:
        """This owner exists, as the store says. Whether that is new."""
        before = self._known.get(owner.uid)
        self._known[owner.uid] = owner
        return before != owner

    def owners_of(self, uid: str) -> Collection[Owner]:
        """The owner, if it is known; else all that it may be."""
        known = self._known.get(uid)
        if known is not None:
            return (known,)
        return {labels.owner_of(child) for mirror in self._main for child in mirror.of(uid)}

    def parts(self, uid: str) -> dict[str, Parts]:
        """The objects of this owner by Task; a Task all of whose objects are going is gone."""
        known = self._known.get(uid)
        if known is not None:
            return self._staying(uid, known.namespace)
        return {
            name: parts for namespace in self._namespaces(uid) for name, parts in self._staying(uid, namespace).items()
        }

    def trusted(self, uid: str) -> dict[str, Parts]:
        """The same, empty while the owner is not known."""
        return self.parts(uid) if uid in self._known else {}

    def everywhere(self, uid: str, name: str) -> list[Parts]:
        """What says that it is of this Task, in whatever namespace."""
        found = [self._parts(uid, namespace).get(name) for namespace in self._namespaces(uid)]
        return [parts for parts in found if parts is not None]

    def succeeded(self, uid: str, name: str) -> bool:
        """Whether it has ended well."""
        parts = self.trusted(uid).get(name)
        return parts is not None and self._status(uid, name, parts).phase == "Succeeded"

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
        for mirror in self._main:
            for child in mirror.all():
                if not going(child):
                    known = self._known.get(child.metadata.labels.owner_uid)
                    yield known or labels.owner_of(child)
        for owner, _ in self.refused.values():
            yield owner

    def forget(self, key: Key) -> None:
        """It is removed."""
        self.open.pop(key, None)
        self.refused.pop(key, None)

    def forget_owner(self, uid: str) -> None:
        """Nothing runs for it any more."""
        self._known.pop(uid, None)

    @property
    def _main(self) -> tuple[Mirror[Any], ...]:
        """Of what we make ourselves."""
        return self._mirrors.jobs, self._mirrors.claims, self._mirrors.volumes

    def _namespaces(self, uid: str) -> list[str]:
        return sorted({labels.namespace_of(child) for mirror in self._main for child in mirror.of(uid)})

    def _parts(self, uid: str, namespace: str) -> dict[str, Parts]:
        found: dict[str, Parts] = {}
        for job in self._mirrors.jobs.of(uid):
            if job.metadata.namespace == namespace:
                found[job.metadata.name] = Parts(job=job)
        for claim in self._mirrors.claims.of(uid):
            if claim.metadata.namespace == namespace:
                found.setdefault(claim.metadata.name, Parts()).claim = claim
        for volume in self._mirrors.volumes.of(uid):
            if labels.namespace_of(volume) == namespace:
                found.setdefault(labels.task_of(volume), Parts()).volume = volume
        for pod in self._mirrors.pods.of(uid):
            parts = found.get(labels.task_of(pod)) if pod.metadata.namespace == namespace else None
            # By what its controller has written, never by labels alone.
            if parts is not None and parts.job is not None and parts.job.metadata.uid == controller(pod):
                parts.pods.append(pod)
        return {name: parts for name, parts in found.items() if any(parts.live)}

    def _staying(self, uid: str, namespace: str) -> dict[str, Parts]:
        return {name: parts for name, parts in self._parts(uid, namespace).items() if not self.leaves((uid, name))}

    def _status(self, uid: str, name: str, parts: Parts) -> TaskStatus:
        if uid not in self._known:
            return TaskStatus(name=name, phase="Pending")
        key = (uid, name)
        job = None if going(parts.job) else parts.job
        pod = parts.pod if job is not None else None
        note = self.open.get(key)
        about = pod or job
        known = note is not None and about is not None and note.about == about.metadata.uid
        if job is not None and note is not None and known and note.lost:
            return status.lost(name, job)
        now = self.clock.now()
        refused = self.refused.get(key)
        hint = refused[1] if refused is not None else note.hint if note is not None and known else None
        if job is None:
            hint = hint or waiting.unbound(parts.claim, now)
        progress = note.progress if note is not None else None
        seen = status.task_status(name, job, pod, now, progress=progress, hint=hint)
        if seen.phase in ("Succeeded", "Failed"):
            self.open.pop(key, None)
        elif note is None:
            self.open[key] = Note()
        return seen
