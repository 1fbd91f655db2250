"""What lies on a node, and what could not be noted in the cluster yet: a quota, say, has no room for one Pod more while
that which serves is still there. It is noted once it can be; until then it is known in memory alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from modelwright.ports.workloads import Owner

FIRST_PAUSE, LAST_PAUSE = 0.5, 30.0


@dataclass(slots=True)
class Pause:
    """Between tries, each longer than the one before; in seconds."""

    length: float = FIRST_PAUSE
    until: float = 0.0

    def begin(self, now: float) -> None:
        """What was tried was refused."""
        self.until = now + self.length
        self.length = min(LAST_PAUSE, 2 * self.length)


@dataclass(slots=True)
class Debt:
    """Models of this owner lie on that node; `kept` says that they may be wanted again."""

    owner: Owner
    server: str
    node: str
    kept: bool
    pause: Pause = field(default_factory=Pause)


class Debts:
    """One for each owner and node."""

    def __init__(self) -> None:
        self._debts: dict[tuple[str, str], Debt] = {}

    def add(self, debt: Debt) -> None:
        """Take it down; what was known of that owner and node before is out of date."""
        self._debts[debt.owner.uid, debt.node] = debt

    def get(self, owner_uid: str, node: str) -> Debt | None:
        return self._debts.get((owner_uid, node))

    def drop(self, owner_uid: str, node: str) -> None:
        """It is noted, or wanted again, or cannot be any more."""
        self._debts.pop((owner_uid, node), None)

    def of(self, owner_uid: str) -> list[Debt]:
        return [debt for debt in self._debts.values() if debt.owner.uid == owner_uid]

    def due(self, now: float) -> Iterator[Debt]:
        """Those to be tried again now."""
        return (debt for debt in list(self._debts.values()) if debt.pause.until <= now)
