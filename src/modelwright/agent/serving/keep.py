"""`modelwright agent keep`: the sidecar of a serving Pod at the edge."""

from __future__ import annotations

import os
import signal
import sys

from modelwright.agent.serving.keeper import Keeper
from modelwright.agent.serving.places import places_of
from modelwright.agent.serving.telling import Teller
from modelwright.agent.serving.timing import Timing


def main(timing: Timing | None = None) -> int:
    """Until SIGTERM or SIGINT, which end it at once: files that are not whole are gone on with by the next one."""
    timing = timing or Timing()
    keeper = Keeper(places_of(os.environ), timing, Teller(timing))

    def end(*_: object) -> None:
        keeper.stop()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        keeper.start()
    except OSError as error:
        print(f"failed: the former configuration cannot be removed: {error}", file=sys.stderr, flush=True)
        return 1
    keeper.run()
    return 0
