"""Workloads as supervised processes on one machine."""

from modelwright.adapters.embedded.workloads.embedded import EmbeddedWorkloads
from modelwright.adapters.embedded.workloads.timing import Timing

__all__ = ["EmbeddedWorkloads", "Timing"]
