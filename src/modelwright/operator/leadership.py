"""Leading: the election in a thread of its own, so that the lease is renewed however busy the control loop is.

A list is decoded in one go: 56 µs for each object, and more the less CPU the Pod is given. With 5,000 objects, renewals
in the control loop itself began 0.1 s late at most; with 50,000 and a quarter of a core a list alone would outlast the
renew deadline. The thread has an event loop and connections of its own.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.lease import Election
from modelwright.adapters.kubernetes.lease_record import LeaseName
from modelwright.operator.health import OperatorMetrics
from modelwright.operator.settings import LeaderElection
from modelwright.ports.errors import Unavailable

T = TypeVar("T")


class Leadership(Protocol):
    """Whether we may write. `acquire`, then `hold`, then `release`."""

    @property
    def leader(self) -> str:
        """Who leads, as far as it is known; empty if it is not."""
        ...

    def check(self) -> None:
        """Raises Unavailable (LeadershipLost) unless we lead for certain."""
        ...

    async def acquire(self) -> None:
        """Until we lead."""
        ...

    async def hold(self) -> None:
        """For as long as we lead. Raises Unavailable (LeadershipLost)."""
        ...

    async def release(self) -> None:
        """Nothing may be written from now on; somebody else may lead at once."""
        ...


class Alone:
    """There is one replica only, an admin says."""

    leader = "this process, without an election"

    def __init__(self) -> None:
        self._released = False

    def check(self) -> None:
        if self._released:
            raise Unavailable("not written: this process is stopping", reason="LeadershipLost")

    async def acquire(self) -> None:
        """At once."""

    async def hold(self) -> None:
        """For ever."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        self._released = True


class Elected:
    """An election in a thread."""

    def __init__(self, election: Election, thread: LoopThread) -> None:
        self._election = election
        self._thread = thread

    @property
    def leader(self) -> str:
        return self._election.holder

    def check(self) -> None:
        self._election.check()

    async def acquire(self) -> None:
        await self._thread.run(self._election.acquire())

    async def hold(self) -> None:
        await self._thread.run(self._election.hold())

    async def release(self) -> None:
        self._election.resign()
        await self._thread.run(self._election.release())


@asynccontextmanager
async def leadership(access: Access, settings: LeaderElection, metrics: OperatorMetrics) -> AsyncIterator[Leadership]:
    """What says whether we lead. Raises Invalid for times that make no sense."""
    if not settings.enabled:
        yield Alone()
        return
    lease = LeaseName(settings.namespace or access.namespace, settings.name, identity())
    with LoopThread("lease") as thread:
        client = await thread.run(_client(access, metrics))
        try:
            yield Elected(
                Election(
                    client, lease, settings.times, renewed=metrics.renewals.observe, overdue=metrics.overdue.observe
                ),
                thread,
            )
        finally:
            await thread.run(client.aclose())


async def _client(access: Access, metrics: OperatorMetrics) -> KubernetesClient:
    return KubernetesClient(access, answered=metrics.answered)


def identity() -> str:
    """Ours alone, in every process that ever runs: a Pod's name, and something that no other has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LoopThread:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there; who waits for it here can be cancelled, and then it is."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
