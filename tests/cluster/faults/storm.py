"""A server in trouble for a while: any request may be refused, lost, or done without a word."""

from __future__ import annotations

import asyncio
import random

from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import Dropped, Fault, refusal
from tests.cluster.faults.wire import Answer

REFUSALS = (429, 500, 503)
CONFLICT = 409
SECONDS = 30.0
"""It passes: pauses that grow with the time for which requests fail end soon after, whatever the dice say."""


class Storm(Fault):
    """One request in two is not answered as it should be, as a seed says."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._end = asyncio.get_running_loop().time() + SECONDS
        self.done = 0

    async def before(self, call: Call) -> Answer | None:
        if self._is_over():
            return None
        chance = self._random.random()
        if chance < 0.5:
            self.done += 1
        if chance < 0.1:
            raise Dropped
        if chance < 0.2 and call.method in ("PUT", "PATCH"):
            return refusal(CONFLICT)
        if chance < 0.4:
            return refusal(self._random.choice(REFUSALS), self._random.choice((None, 0, 1)))
        return None

    async def committed(self, call: Call, answer: Answer) -> Answer:
        if not self._is_over() and self._random.random() < 0.1:
            raise Dropped
        return answer

    def _is_over(self) -> bool:
        return asyncio.get_running_loop().time() > self._end
