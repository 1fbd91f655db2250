"""Leader election by a Lease: who holds it may write.

https://kubernetes.io/docs/concepts/architecture/leases/, compatible with the record that client-go keeps in it.

A Lease does not fence, and clocks of different machines differ. So nobody's times are compared with ours: another's
lease has run out once its record has not changed before our own eyes for as long as it lasts, and our own is taken for
lost `renew_deadline` after the last renewal was *sent*, which is sooner than anybody else can take it over.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from modelwright.adapters.kubernetes.client import JSON, KubernetesClient
from modelwright.adapters.kubernetes.lease_record import LEASES, Lease, LeaseName, LeaseSpec, LeaseTimes, awake
from modelwright.ports.errors import AlreadyExists, Conflict, ModelwrightError, NotFound, Unavailable

LOST = "LeadershipLost"

log = logging.getLogger(__name__)


class Election:
    """One candidate for one Lease. `acquire`, then `hold`, then `release`; `check` may be called from any thread.

    `renewed` is told how many seconds each renewal took, `overdue` how much later than planned it began. The client is
    another than the one that `check` guards.
    """

    def __init__(
        self,
        client: KubernetesClient,
        lease: LeaseName,
        times: LeaseTimes,
        *,
        renewed: Callable[[float], None] = lambda _: None,
        overdue: Callable[[float], None] = lambda _: None,
        now: Callable[[], float] = awake,
    ) -> None:
        times.check()
        self._client = client
        self._lease = lease
        self._times = times
        self._renewed = renewed
        self._overdue = overdue
        self._now = now
        self._seen = LeaseSpec()
        self._seen_at = 0.0
        self._version = ""
        self._deadline = -math.inf
        self._said = ""

    @property
    def holder(self) -> str:
        """Who held it when it was last looked at; empty for nobody."""
        return self._seen.holder_identity or ""

    @property
    def leading(self) -> bool:
        """Whether the lease is ours for certain."""
        return self._now() < self._deadline

    def check(self) -> None:
        """Raises Unavailable (LeadershipLost) unless the lease is ours for certain."""
        if not self.leading:
            raise Unavailable(
                f"not written: {self._lease.identity} does not hold the lease {self._shown} any more", reason=LOST
            )

    async def acquire(self) -> None:
        """Until the lease is ours, however long that takes."""
        while not await self._succeeds(self._times.renew_deadline):
            if self.holder:
                self._say(logging.INFO, f"standing by: {self.holder} holds the lease {self._shown}")
            await asyncio.sleep(self._times.retry_period * random.uniform(0.9, 1.1))  # noqa: S311 - no secret
        self._say(logging.INFO, f"leading: {self.holder} holds the lease {self._shown}")

    async def hold(self) -> None:
        """Renew it for as long as that works. Raises Unavailable (LeadershipLost)."""
        while True:
            due = min(self._now() + self._times.retry_period, self._deadline)
            await asyncio.sleep(max(0.0, due - self._now()))
            began = self._now()
            self._overdue(max(0.0, began - due))
            self._check_held()
            # A server that is slow once does not use up the whole deadline: there is time for a second try.
            if await self._succeeds(min(self._times.renew_deadline / 2, self._deadline - began)):
                self._renewed(self._now() - began)
                self._said = ""
            self._check_held()

    def resign(self) -> None:
        """From now on `check` raises; the lease itself is as it was."""
        self._deadline = -math.inf

    async def release(self) -> None:
        """Give the lease back, if it is ours: who stands by takes it at once. Nothing may be written any more."""
        self.resign()
        if not self._ours:
            return
        try:
            async with asyncio.timeout(self._times.retry_period):
                await self._give_back()
        except (ModelwrightError, TimeoutError) as error:
            log.warning("the lease %s could not be released, and runs out by itself: %s", self._shown, error)
        else:
            log.info("released the lease %s", self._shown)

    async def _give_back(self) -> None:
        """As client-go leaves it: no holder, and a duration that is over for whoever looks at times alone."""
        try:
            await self._write(self._spec(holder="", duration=1))
        except Conflict:  # a renewal that was broken off may have been taken
            await self._look()
            if self._ours:
                await self._write(self._spec(holder="", duration=1))

    # One try --------------------------------------------------------------------------------------------------------

    async def _succeeds(self, seconds: float) -> bool:
        """Take or renew the lease, if it is free or ours."""
        try:
            async with asyncio.timeout(seconds):
                return await self._try()
        except TimeoutError:
            self._say(logging.WARNING, f"lease {self._shown}: no answer in {seconds:.1f} s")
        except (Conflict, AlreadyExists):  # somebody else has written it
            self._version = ""
        except ModelwrightError as error:
            self._version = ""
            self._say(logging.WARNING, f"lease {self._shown}: {error.message}")
        return False

    async def _try(self) -> bool:
        if not self._ours and not await self._look():
            return False
        try:
            await self._take()
        except (Conflict, NotFound):  # our own write may have been taken although its answer was lost
            if not await self._look():
                return False
            await self._take()
        return True

    async def _look(self) -> bool:
        """Read the lease; whether we may take it."""
        try:
            found = msgspec.convert(
                await self._client.get(LEASES, self._lease.namespace, self._lease.name), Lease, strict=False
            )
        except NotFound:
            self._version, self._seen = "", LeaseSpec()
            return True
        except msgspec.ValidationError as fault:
            raise Unavailable(f"the lease cannot be read: {fault}", reason="BadAnswer") from None
        self._version = found.metadata.resource_version
        spec = found.spec or LeaseSpec()
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._now()
        if self.holder == self._lease.identity:
            return True
        self.resign()
        return not self.holder or self._now() >= self._seen_at + self._lasts(spec)

    def _lasts(self, spec: LeaseSpec) -> float:
        """The longer of its holder's duration and ours: they may be of two releases with other settings."""
        return max(self._times.duration, float(spec.lease_duration_seconds or 0))

    async def _take(self) -> None:
        sent = self._now()
        await self._write(self._spec(holder=self._lease.identity, duration=max(1, math.ceil(self._times.duration))))
        self._deadline = sent + self._times.renew_deadline

    async def _write(self, spec: LeaseSpec) -> None:
        name, namespace = self._lease.name, self._lease.namespace
        body: JSON = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": msgspec.to_builtins(spec),
        }
        if self._version:
            body["metadata"]["resourceVersion"] = self._version
            answer: Any = msgspec.json.decode(await self._client.replace(LEASES, namespace, name, body))
        else:
            answer = await self._client.create(LEASES, namespace, body)
        written = msgspec.convert(answer, Lease, strict=False)
        self._version, self._seen, self._seen_at = written.metadata.resource_version, written.spec or spec, self._now()

    def _spec(self, *, holder: str, duration: int) -> LeaseSpec:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = self._ours
        transitions = self._seen.lease_transitions or 0
        return LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            acquire_time=self._seen.acquire_time if ours and holder else now,
            renew_time=now,
            lease_transitions=transitions if ours or not self._version else transitions + 1,
        )

    def _check_held(self) -> None:
        if not self.leading:
            holder = f"{self.holder} holds it" if self.holder != self._lease.identity else "nobody else has it yet"
            raise Unavailable(
                f"the lease {self._shown} could not be renewed within {self._times.renew_deadline:g} s ({holder});"
                " nothing more is written, and the process ends so that it starts anew",
                reason=LOST,
            )

    def _say(self, level: int, message: str) -> None:
        """Each thing once, not with each try."""
        if message != self._said:
            log.log(level, "%s", message)
        self._said = message

    @property
    def _ours(self) -> bool:
        return bool(self._version) and self.holder == self._lease.identity

    @property
    def _shown(self) -> str:
        return f"{self._lease.namespace}/{self._lease.name}"
