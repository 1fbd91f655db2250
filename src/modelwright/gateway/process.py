"""A gateway process: the joint service of its configuration behind HTTP."""

from __future__ import annotations

import asyncio
import os

from modelwright.gateway.config import GatewayConfig, read
from modelwright.gateway.options import GatewayOptions, config_by_hand
from modelwright.gateway.state import GatewayState, ModelState
from modelwright.http.logs import start_log
from modelwright.http.process import Application, Process

__all__ = ["GatewayOptions", "run"]

NOTE_SECONDS = 0.1


def run(options: GatewayOptions) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code: 0 drained, 1 it could not start."""
    start_log()
    from modelwright.http.server import loop_factory

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        process = GatewayProcess(options)
        code = runner.run(process.serve())
        if process.looking_up:
            os._exit(code)  # a lookup cannot be interrupted, and nobody waits for its result
    return code


class GatewayProcess(Process):
    """Holds the application, and gives it each new configuration."""

    def __init__(self, options: GatewayOptions) -> None:
        super().__init__(options)
        from modelwright.gateway.app import App

        self._options = options
        self._app = App(self._note)
        self._config: GatewayConfig | None = None
        self._digest = ""
        self._noted = False

    @property
    def looking_up(self) -> bool:
        """Whether a thread waits for the resolver."""
        pair = self._app.joint.pair if self._config is not None else None
        return pair is not None and (pair.edge.looking_up or pair.cloud.looking_up)

    async def apply(self) -> None:
        """Raises Invalid (ConfigInvalid); then the former configuration stays in force."""
        config, digest = self._configuration()
        if config != self._config:
            self._app.configure(config)
            self._config = config
        self.fault = None
        self._digest = digest
        self.publish()

    def serves(self) -> bool:
        """Whether there is a configuration; models may come later."""
        return self._config is not None

    def application(self) -> Application:
        """The joint service."""
        return self._app

    async def close(self) -> None:
        """Keeps what waits to be kept, and says so."""
        await self._app.aclose()
        self.publish()

    def state(self) -> GatewayState:
        """How it is doing."""
        fault = self.trouble
        joint = self._app.joint if self._config is not None else None
        if joint is not None:
            joint.pair.compare()
        return GatewayState(
            pid=os.getpid(),
            phase=self.phase,
            config_digest=self._digest,
            reason=fault.reason if fault else "",
            message=fault.message if fault else "",
            kept_bytes=joint.keeper.told if joint and joint.keeper else None,
            edge=joint.pair.edge.state if joint else ModelState(),
            cloud=joint.pair.cloud.state if joint else ModelState(),
        )

    def _note(self) -> None:
        """Something has changed: the state file says so soon, once for all that changes meanwhile."""
        if not self._noted:
            self._noted = True
            asyncio.get_running_loop().call_later(NOTE_SECONDS, self._publish_noted)

    def _publish_noted(self) -> None:
        self._noted = False
        self.publish()

    def _configuration(self) -> tuple[GatewayConfig, str]:
        if self._options.config is None:
            return config_by_hand(self._options), ""
        return read(self._options.config)
