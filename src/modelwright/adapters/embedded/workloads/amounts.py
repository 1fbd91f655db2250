"""What a process may use, of the resources that it is given."""

from __future__ import annotations

import math

from modelwright.ports.quantity import parse
from modelwright.ports.workloads import Resources


def memory_limit(resources: Resources) -> int:
    """Bytes, 0 for none. Raises Invalid."""
    text = resources.limits.get("memory")
    return math.ceil(parse(text, "resources.limits.memory")) if text else 0


def threads(resources: Resources) -> int:
    """How many threads a CPU limit allows, 0 for none given. Raises Invalid."""
    text = resources.limits.get("cpu")
    return max(1, math.ceil(parse(text, "resources.limits.cpu"))) if text else 0
