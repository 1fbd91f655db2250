"""What can be said of a server whose node does not answer: nobody knows whether it serves, and it may well."""

from __future__ import annotations

from modelwright.ports.workloads import ServerStatus

NODE_LOST = "NodeLost"
"""The reason that a place to run gives where the node of a server does not answer."""


def is_away(seen: ServerStatus | None) -> bool:
    """Whether the node of the server does not answer, so that what runs there is not known."""
    if seen is None or seen.failure is None or seen.ready_replicas:
        return False
    return seen.failure.reason == NODE_LOST
