"""What is known of each server at the edge beside its Pod, while this process runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from modelwright.adapters.kubernetes.servers.edge_pod import Rendered
from modelwright.adapters.kubernetes.servers.gateway_state import GatewayState
from modelwright.adapters.kubernetes.servers.node_choice import Choice
from modelwright.ports.serving import KeeperState
from modelwright.ports.workloads import Failure, Server

Key = tuple[str, str]
"""The owner's UID and the Server's name."""
FIRST_PAUSE, LAST_PAUSE = 1.0, 15.0


@dataclass(slots=True)
class Reading:
    """What the Pod with the UID `pod` has printed of itself. Times are those of the event loop."""

    pod: str = ""
    state: KeeperState | GatewayState | None = None
    version: str = ""
    """The resourceVersion of the Pod at the last look."""
    due: float = 0.0
    unread: Failure | None = None
    unread_since: float = 0.0


@dataclass(slots=True)
class Note:
    """`server` is None before it has been applied. `failure` is what stands against the next step, `held` the node and
    port that it has; `seen` is what the last step was decided on. After a step that was refused, the next is tried
    `not_before`; `refused` says that `failure` came of one. `deferred`: its Pod is to be made anew when its turn comes;
    `turn`: that is being done.
    `ending`: no step is taken any more, and what it has left is still to be removed."""

    server: Server | None = None
    choice: Choice = field(default_factory=Choice)
    rendered: Rendered | None = None
    failure: Failure | None = None
    refused: bool = False
    held: tuple[str, int] | None = None
    deferred: bool = False
    turn: bool = False
    ending: bool = False
    seen: object = None
    tries: int = 0
    not_before: float = 0.0
    reading: Reading = field(default_factory=Reading)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def stands_against(self, failure: Failure | None, *, refused: bool = False) -> None:
        """What stands against the next step now, if anything."""
        self.failure, self.refused = failure, refused

    def hold_off(self, now: float) -> None:
        """Try again after a pause, each longer than the one before."""
        self.not_before = now + min(LAST_PAUSE, FIRST_PAUSE * 2**self.tries)
        self.tries = min(self.tries + 1, 10)

    def wait(self, now: float) -> None:
        """Something else has to happen first: look again in a while."""
        self.not_before = max(self.not_before, now + FIRST_PAUSE)

    def start_again(self) -> None:
        """Something is another: try at once."""
        self.tries, self.not_before = 0, 0.0
