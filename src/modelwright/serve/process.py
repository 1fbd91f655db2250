"""A model server process: the models of its configuration behind HTTP."""

from __future__ import annotations

import asyncio
import os

from modelwright.http.logs import start_log
from modelwright.http.process import Application, Process
from modelwright.ports.workloads import Failure
from modelwright.serve.config import ServerConfig, read
from modelwright.serve.model_dir import Watch, configurations
from modelwright.serve.options import ServerOptions
from modelwright.serve.state import ServerState

__all__ = ["ServerOptions", "run"]


def run(options: ServerOptions) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code: 0 drained, 1 nothing could be served."""
    start_log()
    from modelwright.http.server import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        process = ServerProcess(options)
        code = runner.run(process.serve())
    if process.still_loading:
        os._exit(code)  # a load cannot be interrupted, and nobody waits for its result
    return code


class ServerProcess(Process):
    """Holds the registry of models and the threads that compute."""

    def __init__(self, options: ServerOptions) -> None:
        super().__init__(options)
        from modelwright.serve.loaded import InferencePool
        from modelwright.serve.registry import Registry

        self._options = options
        self._pool = InferencePool()
        self._registry = Registry(allow_unsafe_formats=options.allow_unsafe_formats, on_change=self.publish)
        self._digest = ""
        self._watch_folder = Watch(options.model_dir) if options.model_dir else None

    @property
    def still_loading(self) -> bool:
        """Whether a thread is loading a model."""
        return self._registry.loading

    def signature(self) -> object:
        """Of the folder that was given by hand, else of the file."""
        if self._watch_folder is None:
            return super().signature()
        return self._watch_folder.look(self._registry.default_version)

    async def apply(self) -> None:
        """Loads and unloads as the configuration says; raises Invalid (ConfigInvalid) if it makes no sense."""
        candidates, digest = self._configurations()
        self.fault = None
        for config in candidates:
            self._pool.max_queue = config.max_queue
            await self._registry.apply(config)
            if self.serves():
                break
        self._digest = digest
        self.publish()

    def serves(self) -> bool:
        """Whether a version is loaded."""
        return self._registry.serving.default is not None

    def application(self) -> Application:
        """The two protocols on the registry."""
        from modelwright.serve.app import App

        return App(self._registry, self._pool)

    def state(self) -> ServerState:
        """What is served, and what became of each version."""
        fault = self.trouble
        return ServerState(
            pid=os.getpid(),
            phase=self.phase,
            default_version=self._registry.default_version,
            versions=tuple(sorted(self._registry.states.values(), key=lambda state: state.number)),
            config_digest=self._digest,
            reason=fault.reason if fault else "",
            message=fault.message if fault else "",
        )

    def failure(self) -> Failure:
        """What is wrong with the configuration, else with the version that it wants or another one."""
        failed = [state for state in self._registry.states.values() if state.state == "failed"]
        if self.fault is not None or not failed:
            return super().failure()
        config = self._registry.config
        state = min(failed, key=lambda state: config is None or state.version != config.default_version)
        return Failure(state.reason, f"version {state.version}: {state.message}")

    def _configurations(self) -> tuple[list[ServerConfig], str]:
        """What to serve, the best first, and the digest of the file that says so."""
        if self._options.config is None:
            return configurations(self._options), ""
        config, digest = read(self._options.config)
        return [config], digest
