"""How the server beside the agent is doing: by its state file, or else by asking it."""

from __future__ import annotations

import http.client
import time
from pathlib import Path

import msgspec

from modelwright.agent.serving.choice import Choice, Listed
from modelwright.agent.serving.timing import Timing
from modelwright.ports.serving import ServeTask
from modelwright.ports.workloads import Failure

_ANSWER_SECONDS = 2.0


class VersionState(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    state: str
    reason: str = ""
    message: str = ""


class ServerState(msgspec.Struct, frozen=True, rename="camel"):
    """What our server writes (`serve.state` is the other side)."""

    phase: str
    default_version: str | None = None
    versions: tuple[VersionState, ...] = ()
    config_digest: str = ""
    reason: str = ""
    message: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """`serving` answers by default (a version's name); `applied` says that all that it was told last is taken up."""

    serving: str = ""
    ready: frozenset[str] = frozenset()
    failed: dict[str, Failure] = {}
    applied: bool = False
    failure: Failure | None = None


def read_state(path: Path, digest: str) -> Seen:
    """What the state file says; `digest` is that of the configuration that the server was told last."""
    try:
        state = msgspec.json.decode(path.read_bytes(), type=ServerState)
    except (OSError, msgspec.MsgspecError):
        return Seen()
    answers = state.phase in ("ready", "draining")
    return Seen(
        serving=state.default_version or "" if answers else "",
        ready=frozenset(one.version for one in state.versions if one.state == "ready" and answers),
        failed={
            one.version: Failure(one.reason or "ModelNotLoaded", one.message)
            for one in state.versions
            if one.state == "failed"
        },
        applied=bool(digest) and state.config_digest == digest,
        failure=Failure(state.reason, state.message, retryable=True) if state.reason else None,
    )


class Asker:
    """Asks a server that writes no state file, not too often."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._next, self._seen = 0.0, Seen()
        self._choice: Choice | None = None

    def look(self, task: ServeTask, choice: Choice | None, *, settled: bool) -> Seen:
        """What it answers for the versions that it was told."""
        now = time.monotonic()
        if choice is None:
            return Seen()
        if now >= self._next or choice != self._choice:
            self._seen, self._choice = _ask(task, choice), choice
            self._next = time.monotonic() + self._timing.ask * (10 if settled else 1)
        return self._seen


def _ask(task: ServeTask, choice: Choice) -> Seen:
    if "$(VERSION)" in task.ready_path:
        ready = frozenset(listed.version for listed in choice.versions if _answers(task, listed))
    else:
        default = choice.find(choice.default)
        answers = default is not None and _answers(task, default)
        ready = frozenset(listed.version for listed in choice.versions if answers)
    serving = next((one for one in (choice.default, choice.stable) if one in ready), "")
    return Seen(serving=serving, ready=ready, applied=serving == choice.default)


def _answers(task: ServeTask, listed: Listed) -> bool:
    """Whether the path gives a 200 now. Any other answer, or none, is no."""
    connection = http.client.HTTPConnection("127.0.0.1", task.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", task.ready_path.replace("$(VERSION)", str(listed.number)))
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
