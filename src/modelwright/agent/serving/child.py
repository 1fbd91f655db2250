"""An attempt as its parent sees it: a process to listen to, and to kill."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress

import msgspec

from modelwright.agent.serving.attempt import Request, Said
from modelwright.ports.workloads import Failure

_CHUNK = 1 << 16


class Child:
    """Started at once; listening never waits. Raises OSError if it cannot be started."""

    def __init__(self, request: Request) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._socket.sendall(msgspec.json.encode(request) + b"\n")
                self._process = subprocess.Popen(_command(), stdin=theirs.fileno(), stdout=theirs.fileno())
            except OSError:
                self._socket.close()
                raise
        self._socket.settimeout(0)
        self._partial = b""
        self.ended = False

    def fileno(self) -> int:
        """Where it is heard."""
        return self._socket.fileno()

    def listen(self) -> list[Said]:
        """What it has said since; the last of all is `done` or a failure."""
        said: list[Said] = []
        while not self.ended:
            try:
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            *lines, self._partial = (self._partial + data).split(b"\n")
            said += [msgspec.json.decode(line, type=Said) for line in lines]
            if any(each.done or each.failure is not None for each in said):
                self.kill()
            elif not data:
                said.append(self._died())
        return said

    def kill(self) -> None:
        """End it; nothing of it stays but files."""
        self._process.kill()
        self._end()

    def _died(self) -> Said:
        code = self._end()
        told = f"the program that brings the model ended with {_ending(code)}: its log says more, if anything does"
        return Said(failure=Failure("WorkerFailed", told, retryable=True))

    def _end(self) -> int:
        self.ended = True
        with suppress(OSError):
            self._socket.close()
        return self._process.wait()


def _command() -> list[str]:
    """The same Python, as isolated from its surroundings as this one; never with modules of the working directory."""
    return [sys.executable, "-IB" if sys.flags.isolated else "-P", "-m", "modelwright.agent.serving.attempt"]


def _ending(code: int) -> str:
    return f"signal {-code} (9 is what a lack of memory is ended by)" if code < 0 else f"code {code}"
