"""The gateway as a plain ASGI application."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from modelwright.gateway import pages, v1, v2
from modelwright.gateway.config import GatewayConfig, ModelConfig
from modelwright.gateway.failed import Failed
from modelwright.gateway.hard import Ask
from modelwright.gateway.joint import Joint, Served
from modelwright.gateway.keep import Keeper
from modelwright.gateway.metrics import Gauges, Metrics
from modelwright.gateway.pose import Request, Selector
from modelwright.gateway.side import Headers, Side
from modelwright.http.asgi import (
    Answer,
    Bodies,
    Message,
    Receive,
    RequestError,
    Send,
    allow,
    json_answer,
    send_answer,
)
from modelwright.http.routes import Route, route_of

log = logging.getLogger("modelwright.gateway")

RETRY_AFTER = ((b"retry-after", b"1"),)
_METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_GOES_ON = frozenset((b"traceparent", b"tracestate", b"via", b"x-request-id"))
_LONGEST_HEADER = 1024
_INFERENCE = {"v1.predict": "v1", "v2.infer": "v2"}


class App:
    """Answers requests as its configuration says; it can be given another one at any time.

    `changed` is called when something changes that others may want to know.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.draining = False
        self._bodies = Bodies()
        self.metrics = Metrics(self._gauges)
        self._changed = changed
        self._via = f"1.1 modelwright-{os.urandom(6).hex()}"
        self._joint: Joint | None = None
        self._former: list[Joint] = []
        """Those that still have requests under way: they may share parts with the present one."""
        self._leaving: set[asyncio.Task[None]] = set()
        self._pages: dict[str, Callable[[Route], Answer | Awaitable[Answer]]] = {
            "healthz": lambda _: Answer(b"ok\n", content_type=b"text/plain"),
            "metrics": lambda _: Answer(self.metrics.text(), content_type=_METRICS),
            "v2": lambda _: json_answer(pages.server_metadata()),
            "live": lambda _: json_answer({"live": True}),
            "ready": lambda _: self._ready(),
            "v2.metadata": lambda route: pages.v2_metadata(route, self._joint_of(route)),
            "v2.ready": lambda route: pages.v2_ready(route, self._joint_of(route)),
            "v1.metadata": lambda route: pages.v1_metadata(route, self._joint_of(route)),
        }

    @property
    def joint(self) -> Joint:
        """The two models under the configuration in force."""
        if self._joint is None:
            raise RequestError("the gateway has no configuration yet", 503, RETRY_AFTER)
        return self._joint

    def configure(self, config: GatewayConfig) -> None:
        """Replaces the configuration at one instant; requests under way end as they began.

        A model whose configuration stays the same is the same to us: what is known of it is kept.
        Raises Invalid (ConfigInvalid).
        """
        before = self._joint
        edge, cloud = self._side("edge", config.edge), self._side("cloud", config.cloud)
        keeper = self._keeper(config)
        self._joint = Joint(config, edge, cloud, self.metrics, keeper)
        self._former = [joint for joint in (*self._former, before) if joint is not None and joint.busy]
        for fresh in (edge, cloud, keeper):
            if fresh is not None and (
                before is None or fresh not in (before.pair.edge, before.pair.cloud, before.keeper)
            ):
                fresh.start()
        for left in (before.pair.edge, before.pair.cloud, before.keeper) if before else ():
            if left is not None and left not in (edge, cloud, keeper):
                self._leave(left)

    async def aclose(self) -> None:
        """Ends everything that has been started, and keeps what waits to be kept."""
        if self._joint is not None:
            for part in (self._joint.pair.edge, self._joint.pair.cloud, self._joint.keeper):
                if part is not None:
                    self._leave(part, self._joint)
        await asyncio.gather(*self._leaving)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request; every error is answered as `{"error": message}`."""
        started = time.perf_counter()
        route = route_of(scope["raw_path"])
        protocol = _INFERENCE.get(route.verb) if route else None
        answer, served_by = await self._guarded(scope, receive, route, protocol)
        await send_answer(send, answer)
        if protocol is not None:
            self.metrics.requests[protocol, answer.status, served_by] += 1
            self.metrics.latency[protocol].observe(time.perf_counter() - started)

    async def _guarded(
        self, scope: Message, receive: Receive, route: Route | None, protocol: str | None
    ) -> tuple[Answer, str]:
        try:
            if route is None:
                raise RequestError(f"there is nothing at {scope['path']}", 404)
            self._check_loop(scope)
            if protocol is not None:
                return await self._infer(scope, receive, route)
            return await self._page(scope, route), ""
        except RequestError as error:
            return json_answer({"error": error.message}, error.status, error.headers), ""
        except Failed as fault:
            return json_answer({"error": fault.message}, 503, RETRY_AFTER), ""
        except Exception:
            log.exception("a request to %r failed", scope["path"])
            return json_answer({"error": "the gateway failed to answer this request; its log says why"}, 500), ""

    async def _infer(self, scope: Message, receive: Receive, route: Route) -> Served:
        allow(scope["method"], "POST")
        joint = self._joint_of(route)
        headers = dict(scope["headers"])
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise RequestError("bodies must not be compressed: leave Content-Encoding out", 415)
        content = await self._bodies.read(scope, receive, joint.config.max_request_bytes)
        request: Request
        if route.verb == "v2.infer":
            size = headers.get(v2.HEADER.lower().encode())
            request = v2.Request(content, None if size is None else size.decode("latin-1"))
        else:
            request = v1.Request(content)
        return await joint.infer(Ask(request, Selector(route.selector, route.key), _passed(scope)))

    async def _page(self, scope: Message, route: Route) -> Answer:
        if route.verb == "v1.status":
            allow(scope["method"], "GET", "HEAD")
            return await pages.v1_status(route, self._joint_of(route), _passed(scope))
        page = self._pages.get(route.verb)
        if page is None:
            method = route.verb.removeprefix("v1.")
            raise RequestError(f"the gateway has no method {method!r}; use :predict", 404)
        allow(scope["method"], "GET", "HEAD")
        found = page(route)
        return found if isinstance(found, Answer) else await found

    def _joint_of(self, route: Route) -> Joint:
        if route.model != self.joint.config.name:
            raise RequestError(f"this gateway does not serve a model {route.model!r}", 404)
        return self.joint

    def _ready(self) -> Answer:
        pair = self._joint.pair if self._joint is not None else None
        ready = pair is not None and not self.draining and (pair.edge.ready or pair.cloud.ready)
        return json_answer({"ready": ready}, 200 if ready else 503)

    def _check_loop(self, scope: Message) -> None:
        """A gateway that is given as a model of itself would ask itself for ever."""
        if any(name == b"via" and self._via.encode() in value for name, value in scope["headers"]):
            raise RequestError("this request has come from this gateway: it is a model of itself", 508)

    # Configuration --------------------------------------------------------------------------------------------------

    def _side(self, name: str, config: ModelConfig) -> Side:
        if self._joint is not None:
            before = self._joint.pair.edge if name == "edge" else self._joint.pair.cloud
            if before.config == config:
                return before
        return Side(name, config, self.metrics, self._via, self._changed)

    def _keeper(self, config: GatewayConfig) -> Keeper | None:
        if not config.keep_folder:
            return None
        place = (Path(config.keep_folder), config.keep_max_bytes)
        before = self._joint.keeper if self._joint else None
        if before is not None and before.place == place and before.service == config.name:
            return before
        return Keeper(config.name, *place, self.metrics, self._changed)

    def _leave(self, part: Side | Keeper, *present: Joint) -> None:
        """Ends a part once the last request that may use it has ended."""
        users = (*self._former, *present)

        async def end() -> None:
            for joint in users:
                await joint.idle()
            await part.aclose()

        task = asyncio.get_running_loop().create_task(end())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def _gauges(self) -> Gauges:
        joint = self.joint
        sides = {side.name: side.gauges for side in (joint.pair.edge, joint.pair.cloud)}
        return Gauges(joint.config.name, sides, joint.keeper.size if joint.keeper else None)


def _passed(scope: Message) -> Headers:
    """The headers that go on to the models, if a model server cannot trip over them."""
    return [
        (name.decode("ascii"), value.decode("ascii"))
        for name, value in scope["headers"]
        if name in _GOES_ON and len(value) <= _LONGEST_HEADER and all(0x20 <= byte < 0x7F for byte in value)
    ]
