"""A server's listening sockets by port: opened, got back from its replicas, or parked while nothing runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from modelwright.adapters.embedded.workloads.listener import Listener, ask, reserve
from modelwright.adapters.embedded.workloads.replica import Replica
from modelwright.ports.errors import Unavailable

Answer = Listener | Literal["wait", "stuck"]


class Sockets:
    """All on one host; `patience` is how long replicas may take to hand over the socket that they have."""

    def __init__(self, host: str, patience: float) -> None:
        self.host = host
        self._patience = patience
        self._listening: dict[int, Listener] = {}
        self._parked: Listener | None = None
        self._asked_since: dict[int, float] = {}

    def get(self, port: int) -> Listener | None:
        return self._listening.get(port)

    async def on(self, port: int, replicas: Sequence[Replica]) -> Answer:
        """The socket on this port. `replicas` listen there now: only they can give it, and may need a moment.

        Raises Unavailable with reason PortTaken if another program has it.
        """
        if port in self._listening:
            return self._listening[port]
        running = [replica for replica in replicas if not replica.ended]
        if not running:
            return self.open(port)
        for replica in running:
            found = await ask(replica.handover)
            if found is not None and found.port == port:
                self._asked_since.pop(port, None)
                self._listening[port] = found
                return found
            if found is not None:
                found.close()
        since = self._asked_since.setdefault(port, time.monotonic())
        return "stuck" if time.monotonic() - since > self._patience else "wait"

    def open(self, port: int, remembered: int = 0) -> Listener:
        """Listen on this port; for 0 on the remembered one, else on any. Raises Unavailable."""
        parked, self._parked = self._parked, None
        if parked is not None and port in (0, parked.port):
            listener = parked
        else:
            if parked is not None:
                parked.close()
            listener = reserve(self.host, port, remembered)
        try:
            listener.listen()
        except Unavailable:
            listener.close()
            if port:
                raise
            listener = reserve(self.host, 0)
            listener.listen()
        self._listening[listener.port] = listener
        return listener

    def keep_only(self, ports: set[int]) -> None:
        """Close those that nobody uses any more."""
        for port in [port for port in self._listening if port not in ports]:
            self._listening.pop(port).close()

    def park(self, port: int) -> None:
        """Keep the port without listening: who connects is refused at once. Best effort: it may be lost."""
        self.keep_only(set())
        if self._parked is not None and self._parked.port == port:
            return
        self.close()
        if port:
            try:
                self._parked = reserve(self.host, port)
            except Unavailable:
                pass

    def close(self) -> None:
        self.keep_only(set())
        if self._parked is not None:
            self._parked.close()
            self._parked = None
