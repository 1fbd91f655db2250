"""A server process, from its start to its drained end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from modelwright.ports.errors import ModelwrightError, Unavailable
from modelwright.serve.config import ServerConfig, read
from modelwright.serve.listening import offer_listener, open_listener
from modelwright.serve.options import ServerOptions, config_by_hand
from modelwright.serve.state import Phase, ServerState, StateFile

__all__ = ["ServerOptions", "run"]

log = logging.getLogger("modelwright.server")

POLL_SECONDS = 0.25
# A process that shares its socket leaves new connections to the others soon; one that has it for itself
# goes on accepting for a while, because balancers and proxies learn late that it is not ready any more.
_SHARED_ACCEPT_SECONDS = 0.2
_OWN_ACCEPT_SECONDS = 5.0


def run(options: ServerOptions) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code: 0 drained, 1 nothing could be served."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.raiseExceptions = False  # whoever read our log may be gone; that is no reason to stop serving
    from modelwright.serve.http import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        process = ServerProcess(options)
        code = runner.run(process.serve())
    if process.still_loading:
        os._exit(code)  # a load cannot be interrupted, and nobody waits for its result
    return code


class ServerProcess:
    """Wires configuration, models, HTTP and signals together."""

    def __init__(self, options: ServerOptions) -> None:
        from modelwright.serve.loaded import InferencePool
        from modelwright.serve.registry import Registry

        self._options = options
        self._pool = InferencePool()
        self._registry = Registry(allow_unsafe_formats=options.allow_unsafe_formats, on_change=self._publish)
        self._state_file = StateFile(options.state)
        self._phase: Phase = "loading"
        self._fault: ModelwrightError | None = None
        self._digest = ""
        self._seen: object = None
        self._stop = asyncio.Event()
        self._look = asyncio.Event()
        self._signal = signal.SIGTERM

    @property
    def still_loading(self) -> bool:
        """Whether a thread is loading a model."""
        return self._registry.loading

    async def serve(self) -> int:
        """The life of the process; returns its exit code."""
        self._handle_signals()
        try:
            self._publish()
            listener = open_listener(self._options)
        except (OSError, ModelwrightError) as error:
            return self._cannot_start(error)
        with listener:
            offer = asyncio.create_task(offer_listener(listener))
            try:
                if not await self._until_stopped(self._load_first()):
                    return 0
                if self._registry.serving.default is None:
                    return self._failed()
                return await self._serve(listener, offer)
            finally:
                offer.cancel()

    async def _serve(self, listener: socket.socket, offer: asyncio.Task[None]) -> int:
        from modelwright.serve.app import App
        from modelwright.serve.http import HttpServer

        app = App(self._registry, self._pool)
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
        await server.drain(self._options.drain_seconds)
        return 0

    async def _load_first(self) -> None:
        try:
            await self._apply()
        except ModelwrightError as error:
            self._fault = error

    async def _apply(self) -> None:
        """Applies the configuration as it is now; raises Invalid (ConfigInvalid) if it makes no sense."""
        self._seen = _signature(self._options.config)
        config, digest = self._configuration()
        self._fault = None
        self._pool.max_queue = config.max_queue
        await self._registry.apply(config)
        self._digest = digest
        self._publish()

    def _configuration(self) -> tuple[ServerConfig, str]:
        if self._options.config is None:
            return config_by_hand(self._options), ""
        return read(self._options.config)

    async def _watch(self) -> None:
        """Applies each change of the file, one after the other."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), POLL_SECONDS)
            asked, now = self._look.is_set(), _signature(self._options.config)
            self._look.clear()
            if asked or (now is not None and now != self._seen):
                await self._apply_change()

    async def _apply_change(self) -> None:
        try:
            await self._apply()
        except ModelwrightError as error:
            log.error("%s", error.message)
            self._fault = error
            self._publish()

    async def _until_stopped(self, work: object) -> bool:
        """Runs the work until it ends (True) or the process is asked to end (False)."""
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
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
        if self._options.fd is not None:
            return _SHARED_ACCEPT_SECONDS
        if self._signal == signal.SIGINT:
            return 0.0
        return min(_OWN_ACCEPT_SECONDS, self._options.drain_seconds / 2)

    def _cannot_start(self, error: OSError | ModelwrightError) -> int:
        log.error("cannot start: %s", error)
        self._fault = error if isinstance(error, ModelwrightError) else Unavailable(str(error), reason="CannotStart")
        self._enter("failed")
        return 1

    def _failed(self) -> int:
        self._enter("failed")
        log.error("no version could be loaded; the process ends")
        return 1

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._publish()

    def _publish(self) -> None:
        fault = self._fault
        versions = tuple(sorted(self._registry.states.values(), key=lambda state: state.number))
        state = ServerState(
            pid=os.getpid(),
            phase=self._phase,
            default_version=self._registry.default_version,
            versions=versions,
            config_digest=self._digest,
            reason=fault.reason if fault else "",
            message=fault.message if fault else "",
        )
        try:
            self._state_file.write(state)
        except OSError as error:
            if self._phase == "loading":
                raise
            log.error("the state file cannot be written: %s", error)


def _signature(path: Path | None) -> object:
    """What changes when the file is written or replaced; None if there is no file."""
    try:
        found = path.stat() if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None
