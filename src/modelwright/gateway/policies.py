"""Which rows are hard: small pure functions of one row of probabilities.

A policy is made from its parameters once, and then asked for each row of the edge model's answer. Further policies are
entry points of the group `modelwright.policies`: the name is what `--policy` takes, the value a function as `Maker`.
"""

from __future__ import annotations

import math
import random as dice
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from importlib.metadata import entry_points

from modelwright.ports.errors import Invalid

GROUP = "modelwright.policies"

Policy = Callable[[Sequence[float]], bool]
"""Whether a row is hard, from its probabilities (each 0 to 1, their sum 1)."""

Maker = Callable[[Mapping[str, float]], Policy]
"""A policy from its parameters. Raises ValueError for parameters that make no sense."""

CONFIDENCE = 0.9
MARGIN = 0.8
ENTROPY = 0.325  # nats: that of the probabilities 0.9 and 0.1
SHARE = 0.1


def confidence(parameters: Mapping[str, float]) -> Policy:
    """Hard if the highest probability is below `threshold`."""
    threshold = _parameter(parameters, "threshold", CONFIDENCE, 1.0)
    return lambda row: max(row) < threshold


def margin(parameters: Mapping[str, float]) -> Policy:
    """Hard if the highest probability is less than `threshold` above the second."""
    threshold = _parameter(parameters, "threshold", MARGIN, 1.0)

    def hard(row: Sequence[float]) -> bool:
        first, second = nlargest(2, row)
        return first - second < threshold

    return hard


def cross_entropy(parameters: Mapping[str, float]) -> Policy:
    """Hard if the entropy of the prediction is above `threshold`, in nats (0: certain, ln n: no idea among n)."""
    threshold = _parameter(parameters, "threshold", ENTROPY, math.inf)
    return lambda row: entropy(row) > threshold


def random(parameters: Mapping[str, float]) -> Policy:
    """Hard with `probability`, whatever the scores."""
    share = _parameter(parameters, "probability", SHARE, 1.0)
    return lambda row: dice.random() < share  # noqa: ARG005, S311


BUILT_IN: dict[str, Maker] = {
    "confidence": confidence,
    "margin": margin,
    "crossEntropy": cross_entropy,
    "random": random,
}
WITHOUT_SCORES = frozenset({"random"})


def entropy(row: Sequence[float]) -> float:
    """Shannon's entropy in nats."""
    return -sum(p * math.log(p) for p in row if p > 0)


def needs_scores(name: str) -> bool:
    """Whether the policy looks at scores at all; one from elsewhere does."""
    return name not in WITHOUT_SCORES


def make(name: str, parameters: Mapping[str, float]) -> Policy:
    """The policy of that name. Raises Invalid (ConfigInvalid) if there is none, or the parameters make no sense."""
    try:
        return _maker(name)(parameters)
    except (ValueError, TypeError) as error:
        raise Invalid(f"policy {name}: {error}", reason="ConfigInvalid") from error


def _maker(name: str) -> Maker:
    if name in BUILT_IN:
        return BUILT_IN[name]
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join([*BUILT_IN, *sorted(found)])
        raise Invalid(f"there is no policy {name!r}; there are {known}", reason="ConfigInvalid")
    try:
        maker: Maker = found[name].load()
    except Exception as error:  # it is somebody else's code
        raise Invalid(f"policy {name} cannot be loaded: {error!r}", reason="ConfigInvalid") from error
    return maker


def _parameter(parameters: Mapping[str, float], name: str, default: float, most: float) -> float:
    unknown = sorted(parameters.keys() - {name})
    if unknown:
        raise ValueError(f"it has no parameter {unknown[0]!r}; it has {name}")
    value = parameters.get(name, default)
    if not 0 <= value <= most:
        raise ValueError(f"{name} must be from 0 to {most:g}" if most < math.inf else f"{name} must be 0 or more")
    return value
