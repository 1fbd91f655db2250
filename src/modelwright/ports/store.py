"""Store: where resources live.

Resources are the structs of `modelwright.api`; a resource's type says which kind is meant.
A write names the resource version that it was decided on, and fails with Conflict if that is not the newest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

R = TypeVar("R")


class Unreadable(msgspec.Struct, frozen=True):
    """A stored object that this program cannot read: an older or newer schema let it in. It is there all the same."""

    namespace: str
    name: str
    uid: str
    message: str


class Listing(msgspec.Struct, Generic[R], frozen=True):
    """All resources of a kind at one version of the store: watch from there."""

    items: tuple[R, ...]
    version: str
    unreadable: tuple[Unreadable, ...] = ()


class Change(msgspec.Struct, Generic[R], frozen=True):
    """One change of a resource; a deleted one is given as it last was.

    `BOOKMARK` carries no resource: it only says that the watch has seen everything up to `version`. An object that
    cannot be read is given as `unreadable` instead.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    resource: R | None
    version: str
    unreadable: Unreadable | None = None


class Event(msgspec.Struct, frozen=True):
    """Something that a user should be able to read in `describe`; equal ones are counted, not repeated."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Store(Protocol):
    """Resources with optimistic concurrency and a watch. All namespaces at once, except where one is named."""

    async def get(self, type_: type[R], namespace: str, name: str) -> R:
        """The resource as it is now. Raises NotFound."""
        ...

    async def list(self, type_: type[R]) -> Listing[R]:
        """All resources of a kind."""
        ...

    def watch(self, type_: type[R], version: str) -> AsyncIterator[Change[R]]:
        """Every change after `version`, in order. Raises Expired (list again), Unavailable (watch again)."""
        ...

    async def create(self, resource: R) -> R:
        """Raises AlreadyExists, Invalid, NotFound (its namespace)."""
        ...

    async def update_metadata(self, resource: R) -> R:
        """Write labels, annotations, owner references and finalizers. Raises Conflict, NotFound, Invalid."""
        ...

    async def update_spec(self, resource: R) -> R:
        """Write the spec alone, as a whole. Raises Conflict, NotFound, Invalid."""
        ...

    async def update_status(self, resource: R) -> R:
        """Write the status alone. Raises Conflict, NotFound, Invalid."""
        ...

    async def delete(self, resource: Any) -> None:
        """Delete this very resource (uid and, where set, resource version must match). Raises Conflict, NotFound."""
        ...

    async def record(self, event: Event) -> None:
        """Write an Event down; failing to is logged by the caller, never fatal."""
        ...
