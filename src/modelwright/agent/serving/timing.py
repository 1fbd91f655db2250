"""How often the keeper looks, and how long it waits."""

from __future__ import annotations

import msgspec


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """All in seconds."""

    look: float = 0.25
    look_settled: float = 0.5
    ask: float = 0.5
    """Between two questions to a server that writes no state file; ten times that once all is settled."""
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """After a failure that may mend by itself."""
    elsewhere_pause: float = 120.0
    """After a failure that somebody mends somewhere else."""
    stall: float = 30.0
    """A server that sends nothing for so long is asked anew."""
    progress: float = 1.0
    progress_slow: float = 10.0
    """Progress is told at least so far apart; less than a fiftieth of the whole, so far."""
    repeat: float = 30.0
    """The state is told again after other lines."""
    repeat_always: float = 600.0
    """And in any case, since logs are rotated."""
