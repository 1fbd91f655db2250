"""What the keeper prints: a state whenever something has changed, progress not too often."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from modelwright.agent.printing import Printer
from modelwright.agent.serving.timing import Timing
from modelwright.ports.serving import KeeperState
from modelwright.ports.workloads import Progress

_STEP = 0.02


class Teller:
    """Prints lines for people and states for the operator, so that a log ends with a state, sooner or later."""

    def __init__(self, timing: Timing, printer: Printer | None = None, clock: Callable[[], float] = time.monotonic):
        self._timing, self._clock = timing, clock
        self._printer = printer or Printer()
        self._told: KeeperState | None = None
        self._told_at = 0.0
        self._others = False

    def say(self, text: str) -> None:
        """A line for people."""
        self._printer.say(text)
        self._others = True

    def tell(self, state: KeeperState) -> None:
        """Print the state, if it is time to."""
        now = self._clock()
        if not self._due(state, now - self._told_at):
            return
        self._told, self._told_at, self._others = state, now, False
        self._printer.line(msgspec.json.encode(state))

    def _due(self, state: KeeperState, waited: float) -> bool:
        told = self._told
        if told is None or waited >= self._timing.repeat_always:
            return True
        if self._others and waited >= self._timing.repeat:
            return True
        if without_progress(state) != without_progress(told):
            return True
        return (
            state != told
            and waited >= self._timing.progress
            and (waited >= self._timing.progress_slow or _further(state, told))
        )


def without_progress(state: KeeperState) -> KeeperState:
    """The state, but for how many bytes have come."""
    versions = tuple(msgspec.structs.replace(version, progress=None) for version in state.versions)
    return msgspec.structs.replace(state, versions=versions)


def _further(state: KeeperState, told: KeeperState) -> bool:
    before = {version.version: version.progress for version in told.versions}
    return any(_steps(before.get(version.version), version.progress) for version in state.versions)


def _steps(before: Progress | None, now: Progress | None) -> bool:
    if before is None or now is None or not now.bytes_total:
        return before != now
    return abs(now.bytes_done - before.bytes_done) >= now.bytes_total * _STEP
