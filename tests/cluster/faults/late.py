"""Answers that come late: what has followed from a write is told by the watches before the write itself is answered."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict

from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import Fault
from tests.cluster.faults.wire import Answer

from modelwright.adapters.kubernetes.workloads.labels import OWNER_UID

LINES = 2
"""The second time that a Pod's success is told, the first has been heard."""


class AfterTheBuild(Fault):
    """Nothing is told of a Job before the watch has told that its Pod has succeeded: first the creation is answered,
    then the watch of Jobs goes on. `done` counts these calls."""

    def __init__(self) -> None:
        self.done = 0
        self._lines: Counter[str] = Counter()
        self._told: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._answered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def committed(self, call: Call, answer: Answer) -> Answer:
        if _makes_job(call):
            await self._told[_owner(call.document)].wait()
        return answer

    def ended(self, call: Call) -> None:
        if _makes_job(call):
            self.done += 1
            self._answered[_owner(call.document)].set()

    async def line(self, call: Call, line: bytes) -> bytes | None:
        if call.resource == "jobs" and OWNER_UID.encode() in line:
            await self._answered[_owner(json.loads(line)["object"])].wait()
        if call.resource == "pods" and b'"phase":"Succeeded"' in line:
            uid = _owner(json.loads(line)["object"])
            self._lines[uid] += 1
            if self._lines[uid] == LINES:
                self._told[uid].set()
        return line


class Late(Fault):
    """Any answer to a write comes up to so many seconds late, as a seed says; those of the lease come in time."""

    def __init__(self, seed: int, seconds: float) -> None:
        self._random = random.Random(seed)
        self._seconds = seconds
        self.done = 0

    async def committed(self, call: Call, answer: Answer) -> Answer:
        if call.write and call.resource != "leases":
            self.done += 1
            await asyncio.sleep(self._random.choice((0.0, 0.1, 1.0)) * self._seconds)
        return answer


def _makes_job(call: Call) -> bool:
    return call.method == "POST" and call.of == "jobs"


def _owner(document: dict[str, object]) -> str:
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["labels"][OWNER_UID])
