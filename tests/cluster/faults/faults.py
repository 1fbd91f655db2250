"""What the proxy can do to requests, answers and watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Literal

from tests.cluster.faults.call import Call
from tests.cluster.faults.wire import Answer

Match = Callable[[Call], bool]
Moment = Literal["before", "during", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
"""Before the request is forwarded; after the server has done it and before the operator hears of it; right after
the operator has been told."""

FOREVER = 1 << 30
REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Dropped(Exception):
    """Raised by a fault: the connection to the operator is dropped, nothing more is said on it."""


class Fault:
    """Does nothing: faults say where they differ."""

    async def before(self, call: Call) -> Answer | None:
        """An answer to give instead of asking the server."""
        return None

    async def committed(self, call: Call, answer: Answer) -> Answer:
        """The answer to give."""
        return answer

    async def replied(self, call: Call) -> None:
        """The operator has been told."""

    async def line(self, call: Call, line: bytes) -> bytes | None:
        """The line of a watch to pass on, None for none."""
        return line

    def ended(self, call: Call) -> None:
        """The call is over, however it went."""


class Counted(Fault):
    """Does something to the first `times` calls that match; `done` counts them."""

    def __init__(self, match: Match, times: int = FOREVER) -> None:
        self._match = match
        self._times = times
        self.done = 0

    def due(self, call: Call) -> bool:
        """Whether this is one of them; it is counted then."""
        if self.done >= self._times or not self._match(call):
            return False
        self.done += 1
        return True


class Refuse(Counted):
    """Answers with an error as a kube-apiserver words it, and does not ask the server."""

    def __init__(self, match: Match, status: int, times: int = FOREVER, *, retry_after: int | None = None) -> None:
        super().__init__(match, times)
        self._status = status
        self._retry_after = retry_after

    async def before(self, call: Call) -> Answer | None:
        return refusal(self._status, self._retry_after) if self.due(call) else None


class Drop(Counted):
    """Drops the connection: before the server is asked, or once it has done what was asked."""

    def __init__(self, match: Match, times: int = FOREVER, *, committed: bool = False) -> None:
        super().__init__(match, times)
        self._committed = committed

    async def before(self, call: Call) -> Answer | None:
        if not self._committed and self.due(call):
            raise Dropped
        return None

    async def committed(self, call: Call, answer: Answer) -> Answer:
        if self._committed and self.due(call):
            raise Dropped
        return answer


class Delay(Counted):
    """Forwards late."""

    def __init__(self, match: Match, seconds: float, times: int = FOREVER) -> None:
        super().__init__(match, times)
        self._seconds = seconds

    async def before(self, call: Call) -> Answer | None:
        if self.due(call):
            await asyncio.sleep(self._seconds)
        return None


class Do(Counted):
    """Runs something of the test's at one of the moments of a call, and goes on as if nothing had been."""

    def __init__(
        self, match: Match, moment: Moment, action: Callable[[Call], Awaitable[None]], times: int = FOREVER
    ) -> None:
        super().__init__(match, times)
        self._moment = moment
        self._action = action

    async def before(self, call: Call) -> Answer | None:
        await self._at("before", call)
        return None

    async def committed(self, call: Call, answer: Answer) -> Answer:
        await self._at("during", call)
        return answer

    async def replied(self, call: Call) -> None:
        await self._at("after", call)

    async def _at(self, moment: Moment, call: Call) -> None:
        if moment == self._moment and self.due(call):
            await self._action(call)


class ExpireWatch(Counted):
    """Lets a watch begin, and then says in its stream that its version is too old, as a kube-apiserver does."""

    async def before(self, call: Call) -> Answer | None:
        if not (call.watch and self.due(call)):
            return None
        line = {"type": "ERROR", "object": _status(410, "too old resource version", None)}
        return Answer(200, {"content-type": "application/json"}, json.dumps(line).encode() + b"\n")


class LoseLine(Counted):
    """Keeps back lines of watches for good: the change was made, and nobody hears of it."""

    def __init__(self, match: Match, containing: bytes, times: int = FOREVER) -> None:
        super().__init__(match, times)
        self._containing = containing

    async def line(self, call: Call, line: bytes) -> bytes | None:
        return None if self._containing in line and self.due(call) else line


class Mute(Fault):
    """From their next line on these watches, open as they are, say nothing: the peer is gone without a word."""

    def __init__(self, match: Match) -> None:
        self._match = match
        self.heard = 0

    async def line(self, call: Call, line: bytes) -> bytes | None:
        if self._match(call):
            self.heard += 1
            await asyncio.Event().wait()
        return line


class SmallPages(Fault):
    """Lists are asked for in pages of this size, whatever the operator asks for."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def before(self, call: Call) -> Answer | None:
        if call.listing:
            call.ask(limit=str(self._size))
        return None


def refusal(status: int, retry_after: int | None = None) -> Answer:
    """An error in the words of a kube-apiserver."""
    headers = {"content-type": "application/json"}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    body = _status(status, f"the test says {REASONS[status]}", retry_after)
    return Answer(status, headers, json.dumps(body).encode())


def _status(code: int, message: str, retry_after: int | None) -> dict[str, object]:
    status: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    details = {} if retry_after is None else {"details": {"retryAfterSeconds": retry_after}}
    return {**status, "code": code, "reason": REASONS[code], "message": message, **details}
