"""Quantities as Kubernetes spells them: `500m`, `256Mi`, `1e3`.

Source: the Quantity type of Kubernetes' apimachinery.
"""

from __future__ import annotations

import re
from fractions import Fraction

from modelwright.ports.errors import Invalid

_PATTERN = re.compile(
    r"\+?([0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64})(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?"
)
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}


def is_quantity(text: str) -> bool:
    """Whether it is one."""
    return _PATTERN.fullmatch(text) is not None


def parse(text: str, field: str) -> Fraction:
    """The number that it stands for. Raises Invalid, which names the field."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise Invalid(f"{field}: {text!r} is no quantity; write it as Kubernetes does, such as 500m or 256Mi")
    number, suffix, exponent = match.groups()
    return Fraction(number) * _SUFFIX.get(suffix or "", Fraction(1)) * Fraction(10) ** int(exponent or 0)
