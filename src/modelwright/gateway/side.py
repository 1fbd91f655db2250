"""One of the two models: what it speaks, whether it is asked at all, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from modelwright.gateway.address import Address, parse_url
from modelwright.gateway.breaker import Breaker, Leave
from modelwright.gateway.config import ModelConfig
from modelwright.gateway.describe import Description
from modelwright.gateway.discover import read_description
from modelwright.gateway.failed import Failed
from modelwright.gateway.metrics import Metrics, SideGauges
from modelwright.gateway.pose import CannotPose, Posed, Told, understand
from modelwright.gateway.state import ModelState
from modelwright.gateway.upstream import Upstream
from modelwright.http.connection import Response

REFRESH_SECONDS = 10.0
RETRY_SECONDS = 1.0
MOST_WAITING = 512

log = logging.getLogger("modelwright.gateway")

Make = Callable[[Description, Address], Posed]
Headers = Iterable[tuple[str, str]]

_OURS = (401, 403, 405, 407, 408, 421, 425)
_ABSENT = 404
_BUSY = (429, 503)


T = TypeVar("T")


class Refused(Exception):
    """The model finds fault with the request itself; its answer is for the client."""

    def __init__(self, response: Response, posed: Posed) -> None:
        super().__init__(f"HTTP {response.status}")
        self.response = response
        self.posed = posed


class Reply(NamedTuple):
    """An answer of use, and what was asked and known when it came."""

    posed: Posed
    told: Told
    description: Description


class Side:
    """Asks one model. Use it from one event loop; `start` it to keep its description fresh, and close it."""

    def __init__(self, name: str, config: ModelConfig, metrics: Metrics, via: str, changed: Callable[[], None]) -> None:
        self.name = name
        self.config = config
        self.url = config.url
        self.description: Description | None = None
        self.fault = ""
        """Why it cannot stand in for the other although it answers; set by who compares the two."""
        self._upstream = Upstream(parse_url(config.url), config) if config.url else None
        self._breaker = Breaker()
        self._metrics = metrics
        self._via = via
        self._changed = changed
        self._last: Failed | None = None
        self._told = ""
        self._stale = True
        self._asked_at = 0.0
        self._pending = 0
        self._fetching: asyncio.Task[Description] | None = None
        self._watching: asyncio.Task[None] | None = None

    # How it is ------------------------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """Whether it has a URL."""
        return self._upstream is not None

    @property
    def ready(self) -> bool:
        """Whether it may be asked: it has been described, and is not left alone after failures."""
        reachable = self.description is not None and (self._last is None or not self._last.away)
        return reachable and not self._breaker.wait(_now())

    @property
    def failing(self) -> bool:
        """Whether it is left alone, or there is nobody to ask: one answer that is late or wrong is no such thing."""
        away = self._last is not None and (self._last.away or self.description is None)
        return away or self._breaker.position != "closed"

    @property
    def looking_up(self) -> bool:
        """Whether a thread waits for the resolver."""
        return self._upstream is not None and self._upstream.looking_up

    @property
    def gauges(self) -> SideGauges:
        return SideGauges(self.ready, self._breaker.position, self._pending)

    @property
    def state(self) -> ModelState:
        if self._upstream is None or (self.description is None and self._last is None):
            return ModelState()
        protocols = self.description.protocols if self.description else ()
        if self._last is not None and self.failing:
            return ModelState("failing", protocols, self._last.reason, self._last.message)
        return ModelState("ready", protocols, "ModelsDiffer" if self.fault else "", self.fault)

    def start(self) -> None:
        """Keep looking at what the model server says of its model."""
        if self._upstream is not None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def aclose(self) -> None:
        """End what `start` began, and close idle connections. No request may be under way."""
        tasks = [task for task in (self._watching, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._upstream is not None:
            await self._upstream.aclose()

    # Asking ---------------------------------------------------------------------------------------------------------

    async def ask(self, make: Make, use: Callable[[Reply], T], headers: Headers, deadline: float) -> T:
        """What `use` makes of the answer to what `make` makes of the model's description; raises Failed, Refused.

        `make` may raise CannotPose. An answer that does not fit the description, or of which `use` can make nothing
        (ValueError), makes the description be read again, and if it has changed, the model be asked once more.
        """
        upstream = self._available()
        leave = self._breaker.ask(_now())
        if leave is None:
            raise self._count(Failed("BreakerOpen", f"the {self.name} model is not asked: {self._why}", lasting=False))
        self._pending += 1
        try:
            found = await self._ask(upstream, make, use, headers, deadline)
        except Failed as fault:
            raise self._failed(fault, leave) from None
        except Refused:
            self._succeeded(leave)
            raise
        except BaseException:
            self._breaker.undecided(leave)
            raise
        finally:
            self._pending -= 1
        self._succeeded(leave)
        return found

    async def fetch(self, method: str, path: str, headers: Headers, deadline: float) -> Response:
        """One request that is passed on as it is; raises Failed."""
        upstream = self._available()
        try:
            return await upstream.ask(method, path, deadline - _now(), self._with_via(headers))
        except Failed as fault:
            raise self._count(fault) from None

    async def _ask(
        self, upstream: Upstream, make: Make, use: Callable[[Reply], T], headers: Headers, deadline: float
    ) -> T:
        description = await self._describe(deadline)
        while True:
            posed = self._posed(make, description, upstream.address)
            response = await self._exchange(upstream, posed, headers, deadline)
            try:
                told = understand(posed, response.body, response.headers)
                found = use(Reply(posed, told, description))
            except ValueError as error:
                self._stale = True
                before, description = description, await self._describe(deadline)
                if description == before:
                    raise Failed("BadAnswer", f"the {self.name} model's answer cannot be used: {error}") from None
                continue
            self._notice_version(told.version)
            return found

    def _posed(self, make: Make, description: Description, address: Address) -> Posed:
        try:
            return make(description, address)
        except CannotPose as error:
            raise Failed(error.reason, f"the {self.name} model cannot be asked: {error}", lasting=False) from None

    async def _exchange(self, upstream: Upstream, posed: Posed, headers: Headers, deadline: float) -> Response:
        started = time.perf_counter()
        sent = (*posed.body.headers, *self._with_via(headers))
        try:
            response = await upstream.ask("POST", posed.path, deadline - _now(), sent, posed.body.content)
        finally:
            self._metrics.upstream[self.name].observe(time.perf_counter() - started)
        if response.status != 200:
            raise self._refusal(response, posed)
        return response

    def _refusal(self, response: Response, posed: Posed) -> Failed | Refused:
        status, selected = response.status, posed.selected
        told = f"the {self.name} model answered HTTP {status}"
        if status == _ABSENT and selected:
            return Failed("VersionNotFound", f"{told}: it has no such version or label", lasting=False, answer=response)
        if status == _ABSENT:
            return Failed("ModelNotFound", f"{told}: {self.url} does not lead to a model")
        if status in _BUSY:
            return Failed("Overloaded", f"{told}: it is overloaded, or not ready")
        if status in _OURS:
            return Failed("Forbidden", f"{told}: it does not take requests from the gateway")
        if 400 <= status < 500:
            return Refused(response, posed)
        if 300 <= status < 400:
            return Failed("Redirected", f"{told}: redirects are not followed; give the URL that it leads to")
        return Failed("ServerError" if status >= 500 else "BadAnswer", told)

    def _available(self) -> Upstream:
        if self._upstream is None:
            raise self._count(
                Failed("UrlNotKnown", f"the URL of the {self.name} model is not known yet", lasting=False)
            )
        if self._pending >= MOST_WAITING:
            message = f"{self._pending} requests wait for the {self.name} model already"
            raise self._count(Failed("TooManyWaiting", message, lasting=False))
        return self._upstream

    def _with_via(self, headers: Headers) -> Headers:
        return (*headers, ("Via", self._via))

    def _notice_version(self, version: str) -> None:
        """Another version may take and give other tensors."""
        if version and self.description is not None and version not in self.description.versions:
            self._asked_at = 0.0

    # What became of requests ----------------------------------------------------------------------------------------

    @property
    def _why(self) -> str:
        return self._last.message if self._last else "it failed"

    def _count(self, fault: Failed) -> Failed:
        self._metrics.failures[self.name, fault.reason] += 1
        return fault

    def _failed(self, fault: Failed, leave: Leave) -> Failed:
        if fault.lasting:
            self._breaker.failed(leave, _now())
            self._stale = True
            self._remember(fault)
        else:
            self._breaker.undecided(leave)
        return self._count(fault)

    def _succeeded(self, leave: Leave) -> None:
        self._breaker.succeeded(leave)
        self._remember(None)

    def _remember(self, fault: Failed | None) -> None:
        before, self._last = self._last, fault
        if fault is not None and (before is None or before.reason != fault.reason):
            log.warning("%s: %s", self.name, fault.message)
        elif fault is None and before is not None:
            log.info("%s: the model answers again", self.name)
        told = fault.reason if fault is not None and self.failing else ""
        if told != self._told:
            self._told = told
            self._changed()

    # What it says of itself -----------------------------------------------------------------------------------------

    async def _describe(self, deadline: float) -> Description:
        """The description, read now if it may be out of date; raises Failed."""
        if self.description is not None and not self._stale:
            return self.description
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(self._read())
        except TimeoutError:
            raise Failed("TimedOut", f"the {self.name} model's metadata did not come in time") from None

    def _read(self) -> asyncio.Task[Description]:
        """The reading that is under way, or a new one: many may wait for the same."""
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
            self._fetching.add_done_callback(_retrieve)
        return self._fetching

    async def _fetch(self) -> Description:
        assert self._upstream is not None  # noqa: S101
        self._asked_at = _now()
        found = await read_description(self._upstream, (("Via", self._via),))
        self._stale = False
        if found != self.description:
            self.description = found
            log.info("%s: %s speaks %s", self.name, self.url, " and ".join(found.protocols))
            self._changed()
        if self._last is not None and self._last.away:
            self._breaker.close()
            self._remember(None)
        return found

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.shield(self._read())
            except Failed as fault:
                if self.description is None or fault.away:
                    self._remember(fault)
            except Exception:
                log.exception("%s: what its server says of the model cannot be read", self.name)
            await self._rest()

    async def _rest(self) -> None:
        """Until the description should be read again."""
        while True:
            pause = RETRY_SECONDS if self._stale else REFRESH_SECONDS
            left = self._asked_at + pause - _now()
            if left <= 0:
                return
            await asyncio.sleep(min(left, RETRY_SECONDS))


def _retrieve(task: asyncio.Task[Description]) -> None:
    """Somebody has looked at how it ended, even if nobody waits any more."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()
