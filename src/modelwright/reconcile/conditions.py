"""Conditions after kstatus: Ready, Reconciling, Stalled, and what their change is worth as an Event."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from modelwright.api.meta import Condition
from modelwright.reconcile.plan import Notice

Status = Literal["True", "False", "Unknown"]


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of this type, or None."""
    return next((condition for condition in conditions if condition.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether the condition of this type is there and True."""
    found = find(conditions, type_)
    return found is not None and found.status == "True"


def condition(type_: str, status: Status, reason: str, message: str) -> Condition:
    """A condition still without times; `settle` adds them."""
    return Condition(type=type_, status=status, reason=reason, message=message)


def ready(reason: str, message: str) -> tuple[Condition, ...]:
    """The spec is fully realised."""
    return (
        condition("Ready", "True", reason, message),
        condition("Reconciling", "False", reason, ""),
        condition("Stalled", "False", reason, ""),
    )


def reconciling(reason: str, message: str) -> tuple[Condition, ...]:
    """On the way: nothing for the user to do but wait."""
    return (
        condition("Ready", "False", reason, message),
        condition("Reconciling", "True", reason, message),
        condition("Stalled", "False", reason, ""),
    )


def unknown(reason: str, message: str) -> tuple[Condition, ...]:
    """Nobody can say whether the spec is realised: it is out of sight. It is looked at again by itself."""
    return (
        condition("Ready", "Unknown", reason, message),
        condition("Reconciling", "True", reason, message),
        condition("Stalled", "False", reason, ""),
    )


def stalled(reason: str, message: str) -> tuple[Condition, ...]:
    """It gets no further until a person acts; the message says how."""
    return (
        condition("Ready", "False", reason, message),
        condition("Reconciling", "False", reason, ""),
        condition("Stalled", "True", reason, message),
    )


def settle(
    wanted: Iterable[Condition], before: Iterable[Condition], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The wanted conditions with their times: one whose status stays keeps the time of its last transition."""
    old = {condition.type: condition for condition in before}

    def dated(new: Condition) -> Condition:
        former = old.get(new.type)
        same = former is not None and former.status == new.status
        return Condition(
            type=new.type,
            status=new.status,
            reason=new.reason,
            message=new.message[:MESSAGE_LIMIT],
            last_transition_time=former.last_transition_time if same and former else now,
            observed_generation=generation,
        )

    return tuple(dated(condition) for condition in wanted)


MESSAGE_LIMIT = 4096
"""Longer messages are cut: a condition is read by people."""


def transitions(before: Iterable[Condition], after: Iterable[Condition], *, warn: bool = False) -> tuple[Notice, ...]:
    """An Event for what has changed: the first of Stalled, Ready, Reconciling that is now true, if it was not the same.

    One change of state is one Event, although three conditions tell of it. It is a Warning if it is Stalled, or `warn`.
    """
    old, new = headline(before), headline(after)
    if new is None or (old is not None and (old.type, old.reason) == (new.type, new.reason)):
        return ()
    return (Notice("Warning" if warn or new.type == "Stalled" else "Normal", new.reason, new.message),)


def headline(conditions: Iterable[Condition]) -> Condition | None:
    """The one condition that tells most: Stalled, else Ready, else Reconciling, whichever is true first."""
    listed = tuple(conditions)
    for type_ in ("Stalled", "Ready", "Reconciling"):
        if is_true(listed, type_):
            return find(listed, type_)
    return None
