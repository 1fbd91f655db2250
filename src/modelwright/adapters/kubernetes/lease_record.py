"""What stands in a Lease, and how long it holds."""

from __future__ import annotations

import time

import msgspec

from modelwright.adapters.kubernetes.resource import Resource
from modelwright.ports.errors import Invalid

LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


def awake() -> float:
    """Seconds that never go back, and run on while the process is stopped or the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux: CLOCK_MONOTONIC stands still in a machine's sleep
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


class LeaseTimes(msgspec.Struct, frozen=True):
    """Seconds: how long a lease holds, after how long without a renewal its holder stops, how often it is renewed."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def check(self) -> None:
        """Raises Invalid (LeaseTimes) where a holder might go on although somebody else has taken over."""
        if not self.duration > self.renew_deadline > 2 * self.retry_period > 0:
            raise Invalid(
                f"a lease of {self.duration:g} s, to be renewed within {self.renew_deadline:g} s, tried every"
                f" {self.retry_period:g} s: the first must be longer than the second, and that than twice the third",
                reason="LeaseTimes",
            )


class LeaseName(msgspec.Struct, frozen=True):
    """Which Lease, and who we are in it: an identity is never used by two processes."""

    namespace: str
    name: str
    identity: str


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds it, and since when. An empty holder or none: nobody."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """What makes a write conditional."""

    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """A coordination.k8s.io/v1 Lease, as far as we read it."""

    metadata: LeaseMetadata
    spec: LeaseSpec | None = None
