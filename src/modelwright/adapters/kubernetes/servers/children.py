"""Makes, changes and removes the objects of Servers; each step may be repeated."""

from __future__ import annotations

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.workloads.kinds import Changed, Metadata, Object, controller, going
from modelwright.adapters.kubernetes.workloads.labels import MANAGER
from modelwright.adapters.kubernetes.workloads.mirror import C, Mirror
from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock
from modelwright.ports.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unavailable

TRIES = 3


class Children:
    """Writes to the API server, and at once to the mirrors: nothing is decided on a state older than our own writes.

    `wrote` is told the UID of the owner after each of them.
    """

    def __init__(self, client: KubernetesClient, clock: ServerClock, wrote: Changed) -> None:
        self._client = client
        self._clock = clock
        self._wrote = wrote

    def have(self, mirror: Mirror[C], owner_uid: str, namespace: str, name: str) -> C | None:
        """The object, if it is this owner's. Raises Unavailable while one of that name is going."""
        there = mirror.get(namespace, name)
        if there is None or not is_owners(there, owner_uid):
            return None
        if going(there):
            raise _going(mirror, name)
        return there

    async def create(self, mirror: Mirror[C], body: JSON) -> C:
        """POST. One that is there and this owner's is taken as it is.

        Raises AlreadyExists (NameTaken), Unavailable, Forbidden, Invalid.
        """
        namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
        for _ in range(TRIES):
            try:
                made = mirror.decode(await self._client.create_bytes(mirror.resource, namespace, body))
            except AlreadyExists:
                there = await self._there(mirror, body)
                if there is not None:
                    return there
                continue
            except Forbidden as error:
                raise explained(error, namespace) from error
            self._clock.saw(made.metadata.creation_timestamp)
            return self._took(mirror, made)
        raise Unavailable(f"the {mirror.resource.kind} {name} came and went {TRIES} times: trying again")

    async def make(self, mirror: Mirror[C], body: JSON) -> C:
        """Make by server-side apply what is to be changed by it later: a field that a POST has set would be owned by
        that for ever, and never go away. What somebody else makes in between refuses it, by the fields that it owns.

        Raises AlreadyExists (NameTaken), Conflict, Unavailable, Forbidden, Invalid.
        """
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        there = await self._there(mirror, body)
        if there is not None:
            return await self.change(mirror, there, body)
        try:
            answer = await self._client.apply(mirror.resource, namespace, name, body)
        except Forbidden as error:
            raise explained(error, namespace) from error
        made = mirror.convert(answer)
        self._clock.saw(made.metadata.creation_timestamp)
        return self._took(mirror, made)

    async def change(self, mirror: Mirror[C], there: C, body: JSON) -> C:
        """Server-side apply over `there`: what others have changed in fields of ours is put right.

        Raises Conflict if it is another's by now, or changed again and again; Unavailable, Forbidden, Invalid.
        """
        current: C | None = there
        for _ in range(TRIES):
            if current is None or not is_of(current, body["metadata"]):
                break
            try:
                return await self._apply_over(mirror, current, body)
            except Conflict:  # controllers write into it all the time, in other fields
                current = await self.look(mirror, current.metadata)
        raise Conflict(f"the {mirror.resource.kind} {there.metadata.name} was changed meanwhile: deciding anew")

    async def _apply_over(self, mirror: Mirror[C], there: C, body: JSON) -> C:
        metadata = there.metadata
        versioned = {**body, "metadata": {**body["metadata"], "resourceVersion": metadata.resource_version}}
        try:
            answer = await self._client.apply(mirror.resource, metadata.namespace, metadata.name, versioned, force=True)
        except NotFound as error:
            raise Conflict(error.message) from error
        except Forbidden as error:
            raise explained(error, metadata.namespace) from error
        return self._took(mirror, mirror.convert(answer))

    async def look(self, mirror: Mirror[C], metadata: Metadata) -> C | None:
        """Read an object anew, which somebody else has just changed; None if it is gone."""
        try:
            there = mirror.decode(await self._client.get_bytes(mirror.resource, metadata.namespace, metadata.name))
        except NotFound:
            gone = mirror.get(metadata.namespace, metadata.name)
            if gone is not None and gone.metadata.uid == metadata.uid:
                mirror.deleted(gone, None)
            return None
        mirror.wrote(there)
        return there

    async def remove(self, mirror: Mirror[C], item: C, *, grace_seconds: int | None = None) -> None:
        """Delete it, if it is still this very object."""
        metadata = item.metadata
        if metadata.deletion_timestamp is not None and grace_seconds is None:
            return
        left = None
        try:
            answer = await self._client.delete(
                mirror.resource, metadata.namespace, metadata.name, uid=metadata.uid, grace_seconds=grace_seconds
            )
            # A Status says that it is gone; the object itself, that it takes a while.
            left = mirror.convert(answer) if answer.get("kind") == mirror.resource.kind else None
        except (NotFound, Conflict):  # gone, or another of that name since
            pass
        mirror.deleted(item, left)
        self._wrote(metadata.labels.owner_uid)

    def _took(self, mirror: Mirror[C], item: C) -> C:
        mirror.wrote(item)
        self._wrote(item.metadata.labels.owner_uid)
        return item

    async def _there(self, mirror: Mirror[C], body: JSON) -> C | None:
        """What has the name: this owner's, from before a crash or a moment ago; None if it has just gone."""
        wanted = body["metadata"]
        try:
            there = mirror.decode(
                await self._client.get_bytes(mirror.resource, wanted.get("namespace", ""), wanted["name"])
            )
        except NotFound:
            return None
        if not is_of(there, wanted):
            raise taken(mirror, there)
        mirror.wrote(there)
        if going(there):
            raise _going(mirror, wanted["name"])
        return there


def is_of(there: Object, wanted: JSON) -> bool:
    """Whether what is there belongs to the owner of the wanted metadata."""
    owner_uid = wanted["labels"]["modelwright.dev/owner-uid"]
    return there.metadata.labels.managed_by == MANAGER and is_owners(there, owner_uid)


def is_owners(there: Object, owner_uid: str) -> bool:
    """Whether it says that it is this owner's, and nobody else controls it. Its labels say it, also where somebody has
    taken its owner references away."""
    return there.metadata.labels.owner_uid == owner_uid and controller(there) in ("", owner_uid)


def taken(mirror: Mirror[C], there: C) -> AlreadyExists:
    """Something else has the name that is wanted."""
    kind, metadata = mirror.resource.kind, there.metadata
    return AlreadyExists(
        f"there is a {kind} {metadata.name} already that belongs to something else (namespace {metadata.namespace}): "
        "delete it, or give this object another name",
        reason="NameTaken",
    )


def explained(error: Forbidden, namespace: str) -> Forbidden | Unavailable:
    """A refusal that passes by itself is no Forbidden."""
    if "being terminated" in error.message:
        return Unavailable(f"the namespace {namespace} is going: {error.message}", reason="NamespaceTerminating")
    return error


def _going(mirror: Mirror[C], name: str) -> Unavailable:
    return Unavailable(f"the former {mirror.resource.kind} {name} has not gone yet: trying again")
