"""A gateway process: the joint service of its configuration behind HTTP."""

from __future__ import annotations

import asyncio
import os

from modelwright.gateway.config import GatewayConfig, read
from modelwright.gateway.options import GatewayOptions, config_by_hand
from modelwright.gateway.state import GatewayState
from modelwright.http.process import Application, Process, start_log

__all__ = ["GatewayOptions", "run"]


def run(options: GatewayOptions) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code: 0 drained, 1 it could not start."""
    start_log()
    from modelwright.http.server import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(GatewayProcess(options).serve())


class GatewayProcess(Process):
    """Holds the application, and gives it each new configuration."""

    def __init__(self, options: GatewayOptions) -> None:
        super().__init__(options)
        from modelwright.gateway.app import App

        self._options = options
        self._make = App
        self._app: App | None = None
        self._digest = ""

    async def apply(self) -> None:
        """Raises Invalid (ConfigInvalid); then the former configuration stays in force."""
        config, digest = self._configuration()
        if self._app is None:
            self._app = self._make(config)
        else:
            self._app.configure(config)
        self.fault = None
        self._digest = digest
        self.publish()

    def serves(self) -> bool:
        """Whether there is a configuration; models may come later."""
        return self._app is not None

    def application(self) -> Application:
        """The joint service."""
        assert self._app is not None  # noqa: S101
        return self._app

    def state(self) -> GatewayState:
        """How it is doing."""
        fault = self.fault
        return GatewayState(
            pid=os.getpid(),
            phase=self.phase,
            config_digest=self._digest,
            reason=fault.reason if fault else "",
            message=fault.message if fault else "",
        )

    def _configuration(self) -> tuple[GatewayConfig, str]:
        if self._options.config is None:
            return config_by_hand(self._options), ""
        return read(self._options.config)
