"""What a reconciler answers: a Plan."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from modelwright.api.meta import OwnerReference
from modelwright.ports.workloads import Server, Task


class Notice(msgspec.Struct, frozen=True):
    """An Event that the plan wants written, beside those that the change of the conditions brings about."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What should be, for one resource.

    `workloads` is the whole of what should run for it: everything else of this owner is stopped,
    except what `keep` names, which is left exactly as it is. `status` None leaves the status alone.
    """

    status: Any = None
    workloads: tuple[Task | Server, ...] = ()
    keep: frozenset[str] = frozenset()
    create: tuple[Any, ...] = ()
    """Children that are made if they are not there."""
    update: tuple[Any, ...] = ()
    """Children as they were seen, but with the spec that they should have."""
    delete: tuple[Any, ...] = ()
    """Children that are no longer wanted, as they were seen."""
    owner: OwnerReference | None = None
    notices: tuple[Notice, ...] = ()
    requeue_after: float | None = None
    warn: bool = False
    """Whether the Event that the change of conditions brings about is a Warning although nobody has to act."""
    untouched: bool = False
    """Nothing at all is to be done (the object is suspended)."""
