"""Quantities as Kubernetes spells them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from modelwright.ports.errors import Invalid
from modelwright.ports.workloads import Resources

_PATTERN = re.compile(r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


def parse(text: str, field: str) -> Fraction:
    """The number that `500m`, `256Mi` or `1e3` stands for. Raises Invalid."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise Invalid(f"{field}: {text!r} is no quantity; write it as Kubernetes does, such as 500m or 256Mi")
    number, suffix, exponent = match.groups()
    return Fraction(number) * _SUFFIX.get(suffix or "", Fraction(1)) * Fraction(10) ** int(exponent or 0)


def memory_limit(resources: Resources) -> int:
    """Bytes, 0 for none. Raises Invalid."""
    text = resources.limits.get("memory")
    return math.ceil(parse(text, "resources.limits.memory")) if text else 0


def threads(resources: Resources) -> int:
    """How many threads a CPU limit allows, 0 for none given. Raises Invalid."""
    text = resources.limits.get("cpu")
    return max(1, math.ceil(parse(text, "resources.limits.cpu"))) if text else 0
