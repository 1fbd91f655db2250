"""Joint inference: the edge model first, the rows that it is not sure of to the cloud model, one answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from modelwright.gateway.address import Address
from modelwright.gateway.compose import composed, error_of, passed_on, says
from modelwright.gateway.config import GatewayConfig
from modelwright.gateway.describe import Description
from modelwright.gateway.failed import Failed
from modelwright.gateway.hard import Ask, HardRows, OfCloud, counterpart
from modelwright.gateway.judge import Judge, Verdict
from modelwright.gateway.keep import Example, Keeper
from modelwright.gateway.metrics import Metrics
from modelwright.gateway.pair import Pair
from modelwright.gateway.pose import Posed, Request, Wish, in_rows, pose
from modelwright.gateway.side import Make, Refused, Reply, Side
from modelwright.http.asgi import Answer, RequestError

log = logging.getLogger("modelwright.gateway")


class Served(NamedTuple):
    """An answer, and who gave it: edge, cloud or mixed."""

    answer: Answer
    by: str


class Joint:
    """Two models under one configuration. It is replaced as a whole when the configuration changes."""

    def __init__(self, config: GatewayConfig, edge: Side, cloud: Side, metrics: Metrics, keeper: Keeper | None) -> None:
        """Raises Invalid (ConfigInvalid) for a policy that cannot be made."""
        self.config = config
        self.pair = Pair(edge, cloud)
        self.keeper = keeper
        self._judge = Judge(config, metrics)
        self._metrics = metrics
        self._pending = 0
        self._left = asyncio.Event()

    async def infer(self, ask: Ask) -> Served:
        """The answer to a request; raises RequestError, and Failed if neither model gives one."""
        self._pending += 1
        try:
            return await self._infer(ask)
        finally:
            self._pending -= 1
            self._left.set()

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._pending > 0

    async def idle(self) -> None:
        """Returns when no request is under way any more."""
        while self._pending:
            self._left.clear()
            await self._left.wait()

    async def _infer(self, ask: Ask) -> Served:
        if self.pair.only_cloud_has(ask.request):
            return await self._instead(ask, None)
        try:
            return await self._judged(ask, await self._ask_edge(ask))
        except Refused as refused:
            return Served(error_of(refused.response, "edge"), "edge")
        except Failed as fault:
            return await self._instead(ask, fault)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self.config.timeout_seconds

    # The edge -------------------------------------------------------------------------------------------------------

    async def _ask_edge(self, ask: Ask) -> Reply:
        deadline = self._deadline()
        try:
            return await self.pair.edge.ask(self._for_edge(ask, with_scores=True), _as_it_is, ask.headers, deadline)
        except Refused as refused:
            if refused.posed.untouched:
                raise
        # Perhaps it refuses what we asked for besides: so the request goes as the client wrote it.
        return await self.pair.edge.ask(self._for_edge(ask, with_scores=False), _as_it_is, ask.headers, deadline)

    def _for_edge(self, ask: Ask, *, with_scores: bool) -> Make:
        def make(description: Description, address: Address) -> Posed:
            scores = self._judge.scores_for(ask.request, description) if with_scores else ""
            count = ask.request.rows if scores and in_rows(description) else None
            return pose(ask.request, Wish(scores=scores, count=count), description, address, ask.selector)

        return make

    async def _judged(self, ask: Ask, reply: Reply) -> Served:
        names = self.pair.names(ask.request, reply.description) or self.pair.common(tuple(reply.told.tensors))
        _check_there(names, tuple(reply.told.tensors))
        verdict = self._judge.verdict(ask.request, reply, names)
        if not verdict.rows:
            return self._of_edge(ask.request, reply, names, verdict)
        cloud, reason = await self._ask_for_hard(ask, reply, names, verdict)
        if self.keeper is not None:
            self.keeper.offer(_example(ask.request, reply, verdict, cloud, reason))
        if cloud is None:
            self._metrics.fallbacks["cloud", reason] += 1
            return self._of_edge(ask.request, reply, names, verdict, f"cloud {reason}")
        return self._merged(ask.request, reply, cloud, names, verdict)

    def _of_edge(
        self, request: Request, reply: Reply, names: Sequence[str], verdict: Verdict, fallback: str = ""
    ) -> Served:
        """The edge model's answer; raises Failed if it cannot be spelled as the client wants it."""
        told = reply.told
        answer = passed_on(request, reply.posed, told, names, self.config.name)
        if answer is None:
            try:
                answer = composed(request, [told.tensors[name] for name in names], told.version, self.config.name)
            except ValueError as error:
                raise Failed("BadAnswer", f"the edge model's answer cannot be given: {error}") from None
        self._metrics.rows["edge"] += verdict.size
        return Served(says(answer, "edge", {"edge": told.version}, fallback=fallback), "edge")

    # The hard rows --------------------------------------------------------------------------------------------------

    async def _ask_for_hard(
        self, ask: Ask, reply: Reply, names: Sequence[str], verdict: Verdict
    ) -> tuple[OfCloud | None, str]:
        """The cloud model's tensors for the hard rows; or None, and why there are none."""

        rows = HardRows(self.pair, ask, reply, tuple(names), verdict, more=self.keeper is not None)
        try:
            return await self.pair.cloud.ask(rows.make, rows.use, ask.headers, self._deadline()), ""
        except Refused:
            return None, "Refused"
        except RequestError:  # the edge model took tensors that nobody else can read
            return None, "CannotBeAsked"
        except Failed as fault:
            return None, fault.reason

    def _merged(self, request: Request, reply: Reply, cloud: OfCloud, names: Sequence[str], verdict: Verdict) -> Served:
        """One answer from both; raises Failed if it cannot be spelled as the client wants it."""
        by, version = ("cloud", cloud.version) if verdict.all_hard else ("mixed", reply.told.version)
        versions = {"cloud": cloud.version} if verdict.all_hard else {"edge": version, "cloud": cloud.version}
        try:
            tensors = [cloud.tensors[name] for name in names]
            if not verdict.all_hard:
                tensors = [reply.told.tensors[each.name].put(verdict.rows, each) for each in tensors]
            answer = composed(request, tensors, version, self.config.name)
        except ValueError as error:
            raise Failed("BadAnswer", f"the models' answers cannot be put together: {error}") from None
        self._metrics.rows["cloud"] += len(verdict.rows)
        self._metrics.rows["edge"] += verdict.size - len(verdict.rows)
        return Served(says(answer, by, versions, cloud_rows=verdict.rows), by)

    # Without the edge -----------------------------------------------------------------------------------------------

    async def _instead(self, ask: Ask, fault: Failed | None) -> Served:
        """The whole request from the cloud model; `fault` is why the edge model does not answer it."""

        def make(description: Description, address: Address) -> Posed:
            agreement, names = self.pair.checked(), self.pair.names(ask.request, self.pair.edge.description)
            scored = self._judge.scores_for(ask.request, description)
            wish = Wish(
                outputs=None if names is None else tuple(map(agreement.output, names)),
                count=ask.request.rows if scored and in_rows(description) else None,
                inputs=agreement.inputs,
                made_for=self.pair.edge.description.inputs if self.pair.edge.description else None,
            )
            return pose(ask.request, wish, description, address, ask.selector)

        def use(reply: Reply) -> Served:
            return self._of_cloud(ask.request, reply, f"edge {fault.reason}" if fault else "")

        try:
            served = await self.pair.cloud.ask(make, use, ask.headers, self._deadline())
        except Refused as refused:
            return Served(error_of(refused.response, "cloud"), "cloud")
        except Failed as other:
            return self._neither(fault, other)
        if fault is not None:
            self._metrics.fallbacks["edge", fault.reason] += 1
        self._metrics.rows["cloud"] += ask.request.rows or 1
        return served

    def _of_cloud(self, request: Request, reply: Reply, fallback: str) -> Served:
        """The cloud model's answer under the edge's names; raises ValueError if it cannot be spelled so."""
        told = reply.told
        names = self.pair.names(request, self.pair.edge.description) or tuple(told.tensors)
        tensors = [counterpart(self.pair, reply, name).named(name, self.pair.datatype(name)) for name in names]
        same = all(each.name in told.tensors and each.datatype == told.tensors[each.name].datatype for each in tensors)
        answer = passed_on(request, reply.posed, told, names, self.config.name) if same else None
        if answer is None:
            answer = composed(request, tensors, told.version, self.config.name)
        return Served(says(answer, "cloud", {"cloud": told.version}, fallback=fallback), "cloud")

    def _neither(self, edge: Failed | None, cloud: Failed) -> Served:
        """Raises Failed, unless both say that what is asked for does not exist."""
        if edge is not None and edge.answer is not None and cloud.answer is not None:
            return Served(error_of(edge.answer, "edge"), "edge")
        reasons = f"edge: {edge.reason}, cloud: {cloud.reason}" if edge else f"cloud: {cloud.reason}"
        raise Failed("NoModelAnswers", f"no model can answer this now ({reasons}); try again later")


def _check_there(names: Sequence[str], given: Sequence[str]) -> None:
    """Raises RequestError: who asks a model that describes nothing by name may ask for what there is not."""
    missing = [name for name in names if name not in given]
    if missing:
        known = ", ".join(map(repr, given))
        raise RequestError(f"the model does not give {', '.join(map(repr, missing))}; it gives {known}")


def _as_it_is(reply: Reply) -> Reply:
    return reply


def _example(request: Request, reply: Reply, verdict: Verdict, cloud: OfCloud | None, reason: str) -> Example:
    tensors = reply.told.tensors
    if not verdict.whole:  # what has no rows says nothing about one
        tensors = {name: tensor for name, tensor in tensors.items() if tensor.rows == verdict.size}
    return Example(
        request=request,
        specs=reply.description.inputs,
        rows=None if verdict.whole else verdict.rows,
        edge=tensors,
        edge_version=reply.told.version,
        cloud=cloud.tensors if cloud else None,
        cloud_version=cloud.version if cloud else "",
        reason=reason,
    )
