"""What is worth an Event once: it stands in the status from then on, and what stands there is not told again."""

from __future__ import annotations

from collections.abc import Iterable

from modelwright.api.meta import REMARKS_LIMIT, Remark
from modelwright.ports.workloads import SeenNotice, ServerStatus
from modelwright.reconcile.conditions import MESSAGE_LIMIT
from modelwright.reconcile.plan import Notice

REASON_LIMIT = 256


def remarks(seen: ServerStatus | None, own: Iterable[SeenNotice] = ()) -> tuple[Remark, ...]:
    """What the reconciler finds worth saying, and what the server has to say: each once, as a status holds it."""
    found = (*own, *(seen.notices if seen is not None else ()))
    told = (Remark(each.reason[:REASON_LIMIT], each.message[:MESSAGE_LIMIT]) for each in found)
    return tuple(dict.fromkeys(told))[:REMARKS_LIMIT]


def news(before: tuple[Remark, ...], after: tuple[Remark, ...]) -> tuple[Notice, ...]:
    """An Event for each that was not said before."""
    return tuple(Notice("Normal", each.reason, each.message) for each in after if each not in before)
