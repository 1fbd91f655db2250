"""The workers of one command: started together, ended together, and nothing of them left behind."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple

from modelwright.agent import orphans
from modelwright.agent.member import Member, Program

_NOT_FOUND = 127
_NOT_EXECUTABLE = 126
_END = {signal.SIGTERM, signal.SIGINT}
_LONGEST_WAIT = 3600.0

State = dict[str, object]


class Plan(NamedTuple):
    """`deadline` (0: none) and `grace` in seconds."""

    programs: list[Program]
    cwd: str
    deadline: float
    grace: float


class Group:
    """`publish` is given the workers' states when they have started, and whenever one has ended."""

    def __init__(self, plan: Plan, publish: Callable[[State], None]) -> None:
        several = len(plan.programs) > 1
        self._plan = plan
        self._publish = publish
        self._members = [
            Member(f"worker-{index}" if several else "it", program, piped=several)
            for index, program in enumerate(plan.programs)
        ]
        self._started = ""
        self._unstarted: tuple[int, str] | None = None
        self._failed: Member | None = None
        self._ended_for = ""
        self._end: float | None = None
        self.asked_to_end = False

    def run(self) -> State:
        """How it ended: exitCode (of the first that failed), reason, message, and each worker's state."""
        orphans.adopt()
        with _signals(self._asked) as wakeups:
            try:
                self._start()
                self._wait(wakeups)
            finally:
                self._signal_all(signal.SIGKILL)
                orphans.end_all(self._reap)
        return self._result()

    # Running --------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._started = _now()
        for member in self._members:
            try:
                member.start(self._plan.cwd)
            except (OSError, ValueError) as error:  # ValueError: what no system can be given, such as a NUL
                self._unstarted = _unstartable(member.name, error)
                self._begin_end("CommandNotStarted")
                return
        if self._plan.deadline:
            self._end = time.monotonic() + self._plan.deadline
        self._tell()

    def _wait(self, wakeups: int) -> None:
        poll = select.poll()
        poll.register(wakeups, select.POLLIN)
        pipes = {member.pipe: member for member in self._members if member.pipe >= 0}
        for pipe in pipes:
            poll.register(pipe, select.POLLIN)
        while any(member.active for member in self._members):
            for descriptor, _ in poll.poll(self._patience() * 1000):
                if descriptor in pipes and not pipes[descriptor].copy():
                    poll.unregister(descriptor)  # it has closed its output, and may go on
            _drain(wakeups)
            for pipe in self._reap():
                if pipe in pipes:
                    with suppress(KeyError):
                        poll.unregister(pipe)
                    del pipes[pipe]
            self._decide()

    def _patience(self) -> float:
        return _LONGEST_WAIT if self._end is None else min(_LONGEST_WAIT, max(0.0, self._end - time.monotonic()))

    def _asked(self) -> None:
        self.asked_to_end = True

    def _decide(self) -> None:
        """End all, if one has failed, somebody asks for it, or it is time."""
        expired = self._end is not None and time.monotonic() >= self._end
        if self._ended_for:
            if expired:
                self._signal_all(signal.SIGKILL)
                self._end = None
        elif self._failed is not None:
            self._begin_end("WorkerFailed")
        elif expired:
            self._begin_end("DeadlineExceeded")
        elif self.asked_to_end:
            self._begin_end("Interrupted")

    def _begin_end(self, reason: str) -> None:
        self._ended_for = reason
        self._end = time.monotonic() + self._plan.grace
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for member in self._members:
            member.send(number)

    def _reap(self) -> list[int]:
        """Take up all that have ended, workers or not; the pipes that were those workers'."""
        by_pid = {member.pid: member for member in self._members if member.active}
        pipes = []
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                member = by_pid.get(ended[0])
                if member is not None:
                    pipes.append(member.pipe)
                    self._ended(member, os.waitstatus_to_exitcode(ended[1]))
        return pipes

    def _ended(self, member: Member, code: int) -> None:
        member.ended(code)
        if code and self._failed is None:
            self._failed = member
        self._tell()

    # What became of it ----------------------------------------------------------------------------------------------

    def _state(self) -> State:
        return {"startedAt": self._started, "workers": [member.state for member in self._members]}

    def _tell(self) -> None:
        self._publish(self._state())

    def _result(self) -> State:
        code = self._failed.code if self._failed is not None else 0
        message = self._message()
        if self._unstarted is not None:
            code, message = self._unstarted
        reason = "" if self._ended_for == "WorkerFailed" else self._ended_for
        ended = {"exitCode": code, "reason": reason, "message": message, "finishedAt": _now()}
        return {**self._state(), **ended}

    def _message(self) -> str:
        if self._ended_for == "DeadlineExceeded":
            return "it was not done at its deadline, and was ended"
        if self._ended_for == "Interrupted":
            return "it was ended before it was done"
        failed = self._failed
        if failed is None or failed.code is None:
            return ""
        others = ", and the other workers were ended" if len(self._members) > 1 else ""
        return f"{failed.name} {_how(failed.code)}{others}"


@contextmanager
def _signals(asked_to_end: Callable[[], None]) -> Iterator[int]:
    """A descriptor that can be read when a child has ended or a signal asks for the end, even after the block."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    for number in _END:
        signal.signal(number, lambda _number, _frame: asked_to_end())
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    yield reader


def _drain(wakeups: int) -> None:
    with suppress(BlockingIOError):
        os.read(wakeups, 4096)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _how(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = ", as the system does when memory is short" if code == -signal.SIGKILL else ""
    return f"was ended by signal {name}{hint}"


def _unstartable(name: str, error: OSError | ValueError) -> tuple[int, str]:
    code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)
    return code, f"{name} cannot be started: {why}"
