"""One process of a server: started or found, watched, drained."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from modelwright.adapters.embedded.workloads import logs
from modelwright.adapters.embedded.workloads.listener import Listener
from modelwright.adapters.embedded.workloads.process import (
    NONCE,
    Identity,
    Process,
    how_it_ended,
    is_alive,
    spawn,
    sweep,
)
from modelwright.adapters.embedded.workloads.records import ReplicaRecord
from modelwright.adapters.embedded.workloads.state import ServerState, StateFile
from modelwright.ports.workloads import Failure

_REFERENCE = re.compile(r"\$(\$)|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes expands it: unknown names stay as they are, `$$` is `$`."""

    def replace(match: re.Match[str]) -> str:
        return "$" if match[1] else values.get(match[2], match[0])

    return _REFERENCE.sub(replace, text)


def references(text: str) -> Iterator[str]:
    """The names that `expand` looks for."""
    return (match[2] for match in _REFERENCE.finditer(text) if match[2])


class Replica:
    """A process that serves; `wake` is called when it has ended."""

    def __init__(self, folder: Path, record: ReplicaRecord, wake: Callable[[], None]) -> None:
        self.record = record
        self._folder = folder
        self._wake = wake
        short = record.nonce.rpartition(".")[2]
        self._state_file = StateFile(folder / f"state-{short}.json", ServerState)
        self.handover = folder / f"handover-{short}.sock"
        self.process: Process | None = None
        self.killed_for: Failure | None = None
        self.ready_since = 0.0
        self._log_start = 0
        self._drain_end = 0.0
        self._signalled = False

    @property
    def state(self) -> ServerState:
        return self._state_file.state or ServerState()

    @property
    def draining(self) -> bool:
        return self.record.draining

    @property
    def ready(self) -> bool:
        return bool(self.ready_since) and not self.draining

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.exited

    def start(self, argv: tuple[str, ...], env: Mapping[str, str], listener: Listener) -> None:
        """Start it on the listening socket. Raises OSError."""
        values = {
            "MODELWRIGHT_FD": str(listener.sock.fileno()),
            "MODELWRIGHT_HOST": listener.host,
            "MODELWRIGHT_PORT": str(listener.port),
            "MODELWRIGHT_STATE": str(self._state_file.path),
            "MODELWRIGHT_HANDOVER": str(self.handover),
        }
        environment = {**os.environ, **values, NONCE: self.record.nonce}
        environment |= {name: expand(value, {**values, **env}) for name, value in env.items()}
        log = self._folder / "log"
        self._log_start = logs.size(log)
        output = logs.open_log(log)
        try:
            command = [expand(word, environment) for word in argv]
            identity = spawn(command, env=environment, output=output, inherit=(listener.sock.fileno(),))
        finally:
            os.close(output)
        self._attach(identity)

    def adopt(self, found: Mapping[str, int], identify: Callable[[int], Identity | None]) -> bool:
        """Find the process that the record speaks of; False if there is none."""
        identity = self.record.process
        if identity is None and self.record.nonce in found:
            identity = identify(found[self.record.nonce])
        if identity is None or not is_alive(identity):
            sweep(identity, self.record.nonce)
            self.forget()
            return False
        self._attach(identity)
        self.look(time.monotonic())
        return True

    def _attach(self, identity: Identity) -> None:
        self.record.process = identity
        self.process = Process(identity, self.record.nonce, self._wake)

    def look(self, now: float) -> bool:
        """Read what it says of itself; True if that is news."""
        news = self._state_file.look()
        if self.state.phase == "ready" and not self.ready_since:
            self.ready_since = now
        elif self.state.phase != "ready":
            self.ready_since = 0.0
        return news

    def reload(self) -> None:
        """Have it read its configuration now. One that has not said anything yet will read it anyway."""
        if self.process is not None and self._state_file.state is not None:
            self.process.signal(signal.SIGHUP)

    def drain(self, now: float, patience: float) -> None:
        """Ask it to end, once, and end it when patience is over. The record must say `draining` already."""
        if self.process is None:
            return
        if not self._drain_end:
            self._drain_end = now + patience
        if not self._signalled and self.state.phase != "draining":
            self._signalled = True
            self.process.signal(signal.SIGTERM)
        if now >= self._drain_end:
            self.process.kill_all()

    def over_limit(self, limit: int, used: int) -> None:
        """End it for using more memory than it may."""
        self.killed_for = Failure(
            reason="OOMKilled",
            message=f"it used {used >> 20} MiB of memory and its limit is {limit >> 20} MiB: raise "
            "resources.limits.memory or serve a smaller model",
            retryable=True,
        )
        if self.process is not None:
            self.process.kill_all()

    def why_it_ended(self) -> Failure:
        """The best reason there is: what killed it, what it said, or its last lines."""
        if self.killed_for:
            return self.killed_for
        state = self.state
        failed = next((version for version in state.versions if version.state == "failed"), None)
        if state.phase == "failed" and (state.reason or failed):
            reason, message = (state.reason, state.message) if state.reason else ("", "")
            if not reason and failed:
                reason, message = failed.reason, failed.message
            return Failure(reason=reason or "ServerFailed", message=message)
        how = how_it_ended(self.process.exit_code if self.process else None)
        lines = logs.last_lines(self._folder / "log", self._log_start)
        return Failure(reason="ServerExited", message=f"{how}; last lines: {lines}" if lines else how, retryable=True)

    def forget(self) -> None:
        """Remove its files."""
        self._state_file.path.unlink(missing_ok=True)
        self.handover.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave it running and watch it no longer."""
        if self.process is not None:
            self.process.close()
