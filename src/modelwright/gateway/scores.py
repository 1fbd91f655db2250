"""How sure the edge model is of each row: which output says so, and what it says as probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from modelwright.gateway.policies import Policy
from modelwright.gateway.tensors import Spec, Tensor

_HINTS = ("prob", "softmax", "score", "logit", "confidence", "sigmoid")
_TOLERANCE = 0.02  # sixteen-bit floats, a thousand classes

Observer = Callable[[Exception], None]


def find_scores(outputs: Sequence[Spec] | None, wanted: str = "") -> str:
    """The name of the output with the scores, empty if there is none.

    `wanted` is what the configuration says. Otherwise it is an output of floats with one row of numbers for each row:
    the one whose name speaks of probabilities, scores or logits, else the only one.
    """
    if wanted or outputs is None:
        return wanted
    found = [spec for spec in outputs if _could_be_scores(spec)]
    for hint in _HINTS:
        named = [spec.name for spec in found if hint in spec.name.lower()]
        if named:
            return named[0]
    wide = [spec for spec in found if spec.shape is None or len(spec.shape) == 2]
    return wide[0].name if len(wide) == 1 else ""


def _could_be_scores(spec: Spec) -> bool:
    return spec.kind in ("float", "any") and (spec.shape is None or len(spec.shape) in (1, 2))


def probabilities(row: Sequence[float], name: str = "") -> Sequence[float] | None:
    """A row of scores as probabilities; None if it says nothing: not finite, empty, no numbers.

    A row that is no distribution (each from 0 to 1, in all 1) is taken as logits. A single number from 0 to 1 is the
    probability of the second of two classes; another single number says nothing unless it is called a logit.
    """
    logits = "logit" in name.lower()
    try:
        total = math.fsum(row)
    except (TypeError, ValueError, OverflowError):  # null, text, infinities
        return None
    if not row or not math.isfinite(total):
        return None
    if len(row) == 1:
        return _of_two(row[0], logits)
    if not logits and abs(total - 1) <= _TOLERANCE and min(row) >= 0 and max(row) <= 1:
        return row
    return softmax(row)


def softmax(row: Sequence[float]) -> list[float]:
    """Logits as probabilities."""
    highest = max(row)
    powers = [math.exp(value - highest) for value in row]
    total = math.fsum(powers)
    return [power / total for power in powers]


def _of_two(value: float, logit: bool) -> list[float] | None:
    if logit:
        return softmax((0.0, value))
    return [1 - value, value] if 0 <= value <= 1 else None


def hard_rows(scores: Tensor, policy: Policy, failed: Observer) -> list[int]:
    """The rows that the policy finds hard, and those whose scores say nothing.

    A policy that raises finds the row hard; `failed` is told.
    """
    return [row for row in range(scores.rows or 0) if _hard(scores.row(row), scores.name, policy, failed)]


def _hard(values: Sequence[float], name: str, policy: Policy, failed: Observer) -> bool:
    row = probabilities(values, name)
    if row is None:
        return True
    try:
        return bool(policy(row))
    except Exception as error:  # a plug-in's
        failed(error)
        return True
