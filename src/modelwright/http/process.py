"""A server process from its start to its drained end; what it serves is for a subclass to say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol

import msgspec

from modelwright.http.listening import offer_listener, open_listener
from modelwright.http.statefile import Phase, StateFile
from modelwright.ports.errors import ModelwrightError, Unavailable

log = logging.getLogger("modelwright.server")

POLL_SECONDS = 0.25
# A process that shares its socket leaves new connections to the others soon; one that has it for itself
# goes on accepting for a while, because balancers and proxies learn late that it is not ready any more.
_SHARED_ACCEPT_SECONDS = 0.2
_OWN_ACCEPT_SECONDS = 5.0


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server process is started.

    `config` is a file that is watched. Either `fd` (a listening TCP socket that others share) or `host` and `port`
    (0: any free port). `drain_seconds`: how long an idle connection is kept after its last request once the process
    has been asked to end.
    """

    config: Path | None = None
    fd: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    state: Path | None = None
    drain_seconds: float = 10.0


class Application(Protocol):
    """An ASGI application; while `draining` it is not ready, and goes on answering."""

    draining: bool


def start_log() -> None:
    """Messages go to stderr; whoever reads them may be gone, which is no reason to stop serving."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.raiseExceptions = False


class Process(ABC):
    """Wires configuration, HTTP and signals together.

    SIGTERM and SIGINT drain, a second one ends at once; SIGHUP applies the configuration again.
    """

    def __init__(self, options: ProcessOptions) -> None:
        self.phase: Phase = "loading"
        self.fault: ModelwrightError | None = None
        self._place = options
        self._state_file = StateFile(options.state)
        self._unsaid = False
        self._seen: object = None
        self._stop = asyncio.Event()
        self._look = asyncio.Event()
        self._signal = signal.SIGTERM

    @abstractmethod
    async def apply(self) -> None:
        """Applies the configuration as it is now; raises a ModelwrightError if it makes no sense."""

    @abstractmethod
    def serves(self) -> bool:
        """Whether there is something to serve, once the configuration has been applied for the first time."""

    @abstractmethod
    def application(self) -> Application:
        """What answers requests."""

    @abstractmethod
    def state(self) -> msgspec.Struct:
        """What stands in the state file."""

    def signature(self) -> object:
        """What is another value when the configuration has changed, None if that cannot be told now."""
        return _signature(self._place.config)

    async def close(self) -> None:  # noqa: B027
        """Ends what the application uses, after its last answer."""

    async def serve(self) -> int:
        """The life of the process; returns its exit code: 0 drained, 1 nothing could be served."""
        self._handle_signals()
        try:
            self.publish()
            listener = open_listener(self._place.fd, self._place.host, self._place.port)
        except (OSError, ModelwrightError) as error:
            return self._cannot_start(error)
        with listener:
            offer = asyncio.create_task(offer_listener(listener))
            try:
                if not await self._until_stopped(self._apply_first()):
                    return 0
                if not self.serves():
                    return self._failed()
                return await self._serve(listener, offer)
            finally:
                offer.cancel()
                await self.close()

    def publish(self) -> None:
        """Writes the state file, if anything has changed. Raises OSError while nothing is served yet."""
        try:
            self._state_file.write(self.state())
            self._unsaid = False
        except OSError as error:
            if self.phase == "loading":
                raise
            if not self._unsaid:
                log.error("the state file cannot be written: %s", error)
            self._unsaid = True

    async def _serve(self, listener: socket.socket, offer: asyncio.Task[None]) -> int:
        from modelwright.http.server import HttpServer

        app = self.application()
        server = HttpServer(app)
        server.accept(listener)
        self._enter("ready")
        host, port = listener.getsockname()[:2]
        print(f"ready http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
        await self._until_stopped(self._watch())
        app.draining = True
        self._enter("draining")
        server.announce_close()
        await asyncio.sleep(self._accept_seconds())
        offer.cancel()
        server.stop_accepting()
        await server.drain(self._place.drain_seconds)
        return 0

    async def _apply_first(self) -> None:
        try:
            await self._apply_seen()
        except ModelwrightError as error:
            log.error("%s", error.message)
            self.fault = error

    async def _apply_seen(self) -> None:
        self._seen = self.signature()
        await self.apply()

    async def _watch(self) -> None:
        """Applies each change of the configuration, one after the other."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):  # wait_for of Python 3.11 can swallow a cancellation
                    await self._look.wait()
            asked, now = self._look.is_set(), self.signature()
            self._look.clear()
            if self._unsaid:  # the disk may have room by now
                self.publish()
            if asked or (now is not None and now != self._seen):
                await self._apply_change()

    async def _apply_change(self) -> None:
        try:
            await self._apply_seen()
        except ModelwrightError as error:
            log.error("%s", error.message)
            self.fault = error
            self.publish()

    async def _until_stopped(self, work: Awaitable[None]) -> bool:
        """Runs the work until it ends (True) or the process is asked to end (False)."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        stopped = self._stop.is_set()
        stop.cancel()
        if not stopped:
            task.result()
            return True
        task.cancel()
        self._enter("draining")
        return False

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_end, number)
        loop.add_signal_handler(signal.SIGHUP, self._look.set)

    def _asked_to_end(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            os._exit(128 + number)
        self._signal = number
        self._stop.set()

    def _accept_seconds(self) -> float:
        if self._place.fd is not None:
            return _SHARED_ACCEPT_SECONDS
        if self._signal == signal.SIGINT:
            return 0.0
        return min(_OWN_ACCEPT_SECONDS, self._place.drain_seconds / 2)

    def _cannot_start(self, error: OSError | ModelwrightError) -> int:
        log.error("cannot start: %s", error)
        self.fault = error if isinstance(error, ModelwrightError) else Unavailable(str(error), reason="CannotStart")
        self._enter("failed")
        return 1

    def _failed(self) -> int:
        self._enter("failed")
        log.error("nothing could be served; the process ends")
        return 1

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.publish()


def _signature(path: Path | None) -> object:
    """What changes when the file is written or replaced; None if there is no file."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None
