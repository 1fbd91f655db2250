"""The operator is killed around every write of a build's life, many builds at once, each at a moment of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.cluster.faults.call import Call
from tests.cluster.faults.faults import Dropped, Fault, Moment
from tests.cluster.faults.wire import Answer

CASE = re.compile(r"case-[0-9]+")
FIRST_FAULT = 300


@dataclass
class Case:
    """Kill at this moment of this write of the ModelVersion `name`; `fired` once it has been done."""

    name: str
    write: str
    moment: Moment
    fired: bool = False


class Trace:
    """Finds out whose write a call is, and which of its writes."""

    def __init__(self) -> None:
        self._volumes: dict[str, str] = {}

    def whose(self, call: Call) -> str:
        """The name of the case, empty if it is none's. A volume is named by its claim, whose name begins so."""
        found = CASE.search(call.target) or CASE.search(call.body.decode())
        if found is None:
            return self._volumes.get(call.name, "")
        if call.resource == "persistentvolumes" and call.method == "POST":
            self._volumes[call.document["metadata"]["name"]] = found[0]
        return found[0]

    def writes(self, calls: Iterable[Call], name: str) -> list[str]:
        """The different writes of this case, in the order in which they came first."""
        return list(dict.fromkeys(write_of(call) for call in calls if call.write and self.whose(call) == name))


def write_of(call: Call) -> str:
    """The same for the same step of any build: what is written, and what a status or an Event says by it."""
    document = call.document
    if call.resource == "events":
        return f"{call.method} events {document.get('reason', '')}".rstrip()
    if call.subresource != "status":
        return f"{call.method} {call.of}"
    status = document.get("status", {})
    if call.resource == "models":
        said = "latest" if status.get("latestVersion") else "none"
    else:
        said = next((each["reason"] for each in status.get("conditions", []) if each["type"] == "Ready"), "")
    return f"{call.method} {call.of} {said}"


class CrashSweep(Fault):
    """Kills by `kill`, which also starts the operator again, at each case's moment; one case after the other.

    A case's write that comes while another case is being dealt with is held back, and dies with the operator.
    """

    def __init__(self, cases: Iterable[Case], kill: Callable[[], None]) -> None:
        self.kills = 0
        self._cases = {case.name: case for case in cases}
        self._kill = kill
        self._trace = Trace()
        self._turn = asyncio.Lock()
        self._current: tuple[Call, Case] | None = None

    async def before(self, call: Call) -> Answer | None:
        case = self._due(call)
        if case is None:
            return None
        kills = self.kills
        await self._turn.acquire()
        if kills != self.kills or case.fired:
            self._turn.release()
            raise Dropped  # who sent it is dead
        self._current = call, case
        self._at("before", call)
        return None

    async def committed(self, call: Call, answer: Answer) -> Answer:
        if answer.status < FIRST_FAULT:
            self._at("during", call)
        return answer

    async def replied(self, call: Call) -> None:
        if call.status < FIRST_FAULT:
            self._at("after", call)

    def ended(self, call: Call) -> None:
        if self._current is not None and self._current[0] is call:
            self._current = None
            self._turn.release()

    def _due(self, call: Call) -> Case | None:
        if not call.write:
            return None
        case = self._cases.get(self._trace.whose(call))
        return case if case is not None and not case.fired and case.write == write_of(call) else None

    def _at(self, moment: Moment, call: Call) -> None:
        if self._current is None or self._current[0] is not call or self._current[1].moment != moment:
            return
        self._current[1].fired = True
        self.kills += 1
        self._kill()
        raise Dropped
