"""Whether a quota that has no room for a Pod will have it once the Pod that it replaces is gone.

What the API server says of it is read as its quota admission writes it: `exceeded quota: NAME, requested:
limits.memory=5Gi, used: limits.memory=1Gi, limited: limits.memory=4Gi`. It names one quota alone: where another has no
room either, that is found out when the former Pod is gone.
"""

from __future__ import annotations

import re
from fractions import Fraction

from modelwright.adapters.kubernetes.client import JSON
from modelwright.ports.errors import Invalid
from modelwright.ports.quantity import parse

EXCEEDED = "exceeded quota"
_AMOUNTS = re.compile(rf"{EXCEEDED}: [^,]+, requested: (\S+), used: (\S+), limited: (\S+)")


def has_room_without(former: JSON, refusal: str) -> bool:
    """Whether the refused Pod fits when this one is gone. What cannot be read is taken for room: then it is tried."""
    found = _AMOUNTS.search(refusal)
    if found is None:
        return True
    try:
        requested, used, limited = (_amounts(text) for text in found.groups())
        return all(
            amount + used.get(name, 0) - _of_pod(former, name) <= limited[name]
            for name, amount in requested.items()
            if name in limited
        )
    except Invalid:
        return True


def _amounts(text: str) -> dict[str, Fraction]:
    pairs = (item.rpartition("=") for item in text.split(","))
    return {name: parse(amount, name) for name, _, amount in pairs}


def _of_pod(pod: JSON, name: str) -> Fraction:
    """How much of it a Pod gives back, at most: all that it and its containers ask for."""
    if name in ("pods", "count/pods"):
        return Fraction(1)
    kind, _, resource = name.partition(".")
    if kind not in ("requests", "limits"):
        kind, resource = "requests", name
    spec = pod.get("spec") or {}
    asking = (spec, *(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    amounts = [(each.get("resources") or {}).get(kind) or {} for each in asking]
    amounts.append(spec.get("overhead") or {})
    return sum((parse(str(each.get(resource, "0")), name) for each in amounts), Fraction(0))
