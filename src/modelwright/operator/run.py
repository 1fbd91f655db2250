"""The operator, put together: client, CRDs, election, then store, workloads and engine for as long as it leads."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from time import perf_counter
from typing import Any

from modelwright import __version__
from modelwright.adapters.kubernetes.access import Access
from modelwright.adapters.kubernetes.client import KubernetesClient
from modelwright.adapters.kubernetes.servers.settings import ServerSettings
from modelwright.adapters.kubernetes.store import KubernetesStore
from modelwright.adapters.kubernetes.workloads.workloads import KubernetesWorkloads
from modelwright.engine.engine import Engine
from modelwright.engine.metrics import Metrics
from modelwright.operator.definitions import Definitions, Finding, State, hindrance, lost, outdated
from modelwright.operator.health import Health, OperatorMetrics, Pages, Standing, served
from modelwright.operator.leadership import Leadership, leadership
from modelwright.operator.settings import OperatorSettings
from modelwright.ports.clock import SystemClock
from modelwright.ports.errors import ModelwrightError, Unavailable

STOP_SECONDS = 9.0
"""All that has to end does so within this, or the process ends without it."""
ENGINE_SECONDS, WORK_SECONDS, LEAD_SECONDS = 3.0, 4.0, 7.0
"""How long each layer waits for what it ends. An inner one gives up first: the lease is given back whatever hangs."""
LOOK_AGAIN = {State.MISSING: 5.0, State.PENDING: 1.0, State.FOREIGN: 30.0}
UNREACHABLE_SECONDS = 2.0
DEFINITIONS_SECONDS = 30.0
PARALLEL = 16
"""Objects of a kind that are reconciled at once: most of that time is waiting for the API server."""

log = logging.getLogger(__name__)


async def run(settings: OperatorSettings) -> None:
    """Run until a signal asks to end. Raises Unavailable (LeadershipLost and others) if it cannot go on."""
    stop = stopping_signals()
    operator = Operator(settings)
    async with served(Pages(operator.health, operator.metrics.registry), settings.host, settings.port) as url:
        log.info("modelwright %s: probes and metrics at %s", __version__, url)
        life = asyncio.create_task(operator.run(), name="operator")
        await asyncio.wait((life, stop), return_when=asyncio.FIRST_COMPLETED)
        end_in_time()
        if not life.done():
            operator.health.say("stopping")
            life.cancel()
        with suppress(asyncio.CancelledError):
            await life


class Operator:
    """One life of the operator: what it has lost, a new process takes up again."""

    def __init__(self, settings: OperatorSettings) -> None:
        self.health = Health()
        self._settings = settings
        self._engine_metrics = Metrics()
        self.metrics = OperatorMetrics(self._engine_metrics.registry, settings.election.name)

    async def run(self) -> None:
        """Until cancelled. Raises what makes going on impossible."""
        access = self._settings.access()
        async with AsyncExitStack() as stack:
            leads = await stack.enter_async_context(leadership(access, self._settings.election, self.metrics))
            client = await stack.enter_async_context(self._client(access, leads))
            definitions = Definitions(client)
            await self._usable(definitions)
            serving = self._settings.servers(access)
            work = self._lead(client, definitions, leads, serving)
            await first_to_end(LEAD_SECONDS, self._follow(definitions), work)

    def _client(self, access: Access, leads: Leadership) -> KubernetesClient:
        log.info("cluster %s (%s)", access.server, access.source)
        return KubernetesClient(access, guard=leads.check, answered=self.metrics.answered)

    # CRDs -----------------------------------------------------------------------------------------------------------

    async def _usable(self, definitions: Definitions) -> None:
        """Until all CRDs are there and ours. What is not ours to touch needs no lease, and no leader."""
        while True:
            try:
                findings = await definitions.look()
                problem, pause = hindrance(findings), self._pause(findings)
            except ModelwrightError as error:
                problem, pause = f"waiting: the CRDs cannot be read: {error.message}", UNREACHABLE_SECONDS
            if not problem:
                break
            self.health.say(problem, level=logging.WARNING)
            await asyncio.sleep(pause)
        self.health.say("the CRDs are there")
        if old := outdated(findings):
            log.warning("%s", old)

    def _pause(self, findings: tuple[Finding, ...]) -> float:
        pauses = [seconds for state, seconds in LOOK_AGAIN.items() if any(each.state is state for each in findings)]
        return min(max(pauses, default=0.0), self._settings.resync)

    async def _follow(self, definitions: Definitions) -> None:
        """Look at the CRDs again and again. Raises Unavailable (DefinitionsLost)."""
        said = ""
        while True:
            await asyncio.sleep(min(DEFINITIONS_SECONDS, self._settings.resync))
            try:
                findings = await definitions.look()
            except ModelwrightError as error:
                log.debug("the CRDs cannot be read: %s", error.message)
                continue
            check(findings)
            if (old := outdated(findings)) and old != said:
                log.warning("%s", old)
            said = old

    # Leading --------------------------------------------------------------------------------------------------------

    async def _lead(
        self, client: KubernetesClient, definitions: Definitions, leads: Leadership, serving: ServerSettings | None
    ) -> None:
        self.health.ask(lambda: Standing(ready=True, message=f"standing by: {leads.leader or 'nobody yet'} leads"))
        await leads.acquire()
        try:
            self.metrics.leader.set(1)
            self.health.say("leading, and filling the caches")
            check(await definitions.look())  # it may have been long since the last time
            await first_to_end(WORK_SECONDS, leads.hold(), self._work(client, serving))
        finally:
            self.metrics.leader.set(0)
            await leads.release()

    async def _work(self, client: KubernetesClient, serving: ServerSettings | None) -> None:
        """Store, workloads and engine, until cancelled. Raises Unavailable (ControlLoopEnded)."""
        try:
            async with KubernetesWorkloads(client, self._settings.jobs, serving) as workloads:
                store = KubernetesStore(client, busy=workloads.busy)
                resync = self._settings.resync
                engine = Engine(store, workloads, SystemClock(), metrics=self._engine_metrics, resync_seconds=resync)
                self.health.ask(lambda: standing_of(engine))
                await first_to_end(ENGINE_SECONDS, engine.run(), caught_up(engine), store.run())
        except Exception as error:
            log.critical("the control loop has ended by itself", exc_info=error)
            message = "the control loop has ended by itself; the process ends so that it starts anew: report this"
            raise Unavailable(message, reason="ControlLoopEnded") from error


def standing_of(engine: Engine) -> Standing:
    """How a leader stands."""
    unfilled = engine.unfilled
    if unfilled:
        return Standing(ready=False, message=f"leading, and filling the caches of {', '.join(unfilled)}")
    return Standing(ready=True, message="leading")


async def caught_up(engine: Engine) -> None:
    """Say once that all has been looked at; then wait, for ever."""
    began = perf_counter()
    while not engine.idle:
        await asyncio.sleep(0.1)
    log.info("caught up: every object has been looked at, %.1f s after the start", perf_counter() - began)
    await asyncio.Event().wait()


def check(findings: tuple[Finding, ...]) -> None:
    """Raises Unavailable (DefinitionsLost) if work with these CRDs must stop."""
    if problem := lost(findings):
        raise Unavailable(f"{problem}. The process ends, and starts anew once they are ours", reason="DefinitionsLost")


async def first_to_end(seconds: float, *works: Coroutine[Any, Any, None]) -> None:
    """Run them together until the first one ends, then end the others, which get so long for it.

    Raises what the first one raised.
    """
    tasks = [asyncio.create_task(work, name=getattr(work, "__qualname__", "")) for work in works]
    done: set[asyncio.Task[None]] = set()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        _, stuck = await asyncio.wait(tasks, timeout=seconds)
        for task in stuck:  # it can write nothing any more: the guard sees to that
            log.error("%s has not ended in %.0f s", task.get_name(), seconds)
    for task in tasks:
        if task in done:
            task.result()


# The process --------------------------------------------------------------------------------------------------------


def stopping_signals() -> asyncio.Future[None]:
    """A future that is done at the first SIGINT or SIGTERM; a second Ctrl-C ends the process at once.

    A second SIGTERM does not: some supervisors send it to the process and to its group.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def asked(number: signal.Signals) -> None:
        if not stop.done():
            stop.set_result(None)
        elif number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked, number)
    return stop


def end_in_time() -> None:
    """Whatever hangs, the process ends: a lease that was not given back runs out by itself."""
    last = threading.Timer(STOP_SECONDS, give_up)
    last.daemon = True
    last.start()


def give_up() -> None:
    log.critical("did not end in %.0f s: ending without the rest", STOP_SECONDS)
    os._exit(1)
