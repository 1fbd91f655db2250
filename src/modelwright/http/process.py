"""A server process from its start to its drained end; what it serves is for a subclass to say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from modelwright.http import bearer
from modelwright.http.files import signature
from modelwright.http.guard import Guard
from modelwright.http.listening import authority, offer_listener, open_listener
from modelwright.http.options import ProcessOptions
from modelwright.http.report import Reporter
from modelwright.http.statefile import Phase, StateFile
from modelwright.http.termination import write_failure
from modelwright.ports.errors import ModelwrightError, Unavailable
from modelwright.ports.workloads import Failure

if TYPE_CHECKING:  # it takes a while to load, and a server that shares its socket begins with its model
    from modelwright.http.server import HttpServer

log = logging.getLogger("modelwright.server")

POLL_SECONDS = 0.25
# A process that shares its socket leaves new connections to the others soon; one that has it for itself
# goes on accepting for a while, because balancers and proxies learn late that it is not ready any more.
_SHARED_ACCEPT_SECONDS = 0.2
_OWN_ACCEPT_SECONDS = 5.0


class Application(bearer.Application, Protocol):
    """An ASGI application; while `draining` it is not ready, and goes on answering."""

    draining: bool


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
        self._guard = Guard(options)
        self._reporter = Reporter() if options.report else None
        self._application: Application
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
        return signature(self._place.config)

    async def close(self) -> None:  # noqa: B027
        """Ends what the application uses, after its last answer."""

    @property
    def trouble(self) -> ModelwrightError | None:
        """What is wrong with the configuration, else with what guards the port."""
        return self.fault or self._guard.fault

    def failure(self) -> Failure:
        """Why there is nothing to serve."""
        trouble = self.trouble
        if trouble is None:
            return Failure("ServerFailed", "nothing could be served; the log says why", retryable=True)
        return Failure(trouble.reason, trouble.message, retryable=trouble.retryable)

    async def serve(self) -> int:
        """The life of the process; returns its exit code: 0 drained, 1 nothing could be served."""
        self._handle_signals()
        async with contextlib.AsyncExitStack() as stack:
            if self._reporter is not None:
                await stack.enter_async_context(self._reporter)
            try:
                return await self._start()
            except Exception as error:
                log.exception("the process ends")
                return self._failed(Unavailable(f"{type(error).__name__}: {error}", reason="ServerFailed"))

    def publish(self) -> None:
        """Writes and prints the state, if anything has changed."""
        try:
            self._publish()
            self._unsaid = False
        except OSError as error:
            if not self._unsaid:
                log.error("the state file cannot be written: %s", error)
            self._unsaid = True

    def _publish(self) -> None:
        state = self.state()
        if self._reporter is not None:
            self._reporter.tell(state)
        self._state_file.write(state)

    async def _start(self) -> int:
        try:
            self._publish()
            if not self._place.stay:
                self._guard.check()
            listener = open_listener(self._place.fd, self._place.host, self._place.port)
        except OSError as error:
            return self._failed(Unavailable(f"cannot start: {error}", reason="CannotStart"))
        except ModelwrightError as error:
            return self._failed(error)
        with listener:
            beside = [asyncio.create_task(work) for work in (offer_listener(listener), self._refresh())]
            server = self._server()
            try:
                if self._place.fd is None:  # who asks how it is doing meanwhile gets an answer
                    server.accept(listener, self._secure)
                    log.info("listening on %s", self._url(listener))
                if not await self._until_stopped(self._apply_first()):
                    return 0
                if not self.serves():
                    return self._failed(None)
                return await self._serve(server, listener, beside[0])
            finally:
                for task in beside:
                    task.cancel()
                await server.close()
                await self.close()

    def _url(self, listener: socket.socket) -> str:
        host, port = listener.getsockname()[:2]
        return f"{self._guard.scheme}://{authority(host, port)}"

    def _server(self) -> HttpServer:
        from modelwright.http.server import HttpServer

        self._application = self.application()
        return HttpServer(self._guard.around(self._application))

    @property
    def _secure(self) -> Callable[[], ssl.SSLContext | None] | None:
        certificate = self._guard.certificate
        return None if certificate is None else lambda: certificate.context

    async def _serve(self, server: HttpServer, listener: socket.socket, offer: asyncio.Task[None]) -> int:
        if self._place.fd is not None:  # shared: others have answered until now
            server.accept(listener, self._secure)
        self._enter("ready")
        print(f"ready {self._url(listener)}", flush=True)
        await self._until_stopped(self._watch())
        self._application.draining = True
        self._enter("draining")
        server.announce_close()
        await asyncio.sleep(self._accept_seconds())
        offer.cancel()
        server.stop_accepting()
        await server.drain(self._place.drain_seconds)
        return 0

    async def _refresh(self) -> None:
        """Looks at the files that guard the port, also while a model is being loaded."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._guard.refresh():
                self.publish()

    async def _apply_first(self) -> None:
        if self._place.fd is None:
            await self._until_configured()
        await self._apply_change()
        while self._place.stay and not self.serves():
            await self._next_change()

    async def _until_configured(self) -> None:
        """Returns when there is a file, whatever it holds."""
        if _is_missing(self._place.config):
            log.info("waiting for the configuration %s, which is not there yet", self._place.config)
        while _is_missing(self._place.config):
            await asyncio.sleep(POLL_SECONDS)

    async def _apply_seen(self) -> None:
        self._seen = self.signature()
        await self.apply()

    async def _watch(self) -> None:
        """Applies each change of the configuration, one after the other."""
        while True:
            await self._next_change()

    async def _next_change(self) -> None:
        """Looks once, soon or when asked to, and applies the configuration if it has changed."""
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

    def _failed(self, error: ModelwrightError | None) -> int:
        """Says why it ends, to whom it may concern; the exit code."""
        self.fault = error or self.fault
        self._enter("failed")
        failure = self.failure()
        log.error("nothing can be served: %s: %s; the process ends", failure.reason, failure.message)
        write_failure(self._place.termination_file, failure)
        return 1

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.publish()


def _is_missing(path: Path | None) -> bool:
    try:
        return path is not None and not path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it is there, and reading it will tell what is wrong
        return False
