"""How long ago something was made is a matter of the clock that stamped it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.kubernetes_workloads.support import OWNER
from tests.unit.kubernetes_workloads.test_tasks import Place

from modelwright.adapters.kubernetes.workloads.server_clock import ServerClock

LITTLE = timedelta(seconds=4)


@pytest.mark.parametrize("seconds", [-7200, -40, 40, 7200])
def test_a_clock_that_differs_is_taken_into_account(seconds: float) -> None:
    clock, theirs = ServerClock(), datetime.now(UTC) + timedelta(seconds=seconds)
    assert abs(clock.now() - datetime.now(UTC)) < LITTLE
    clock.saw(theirs)
    assert abs(clock.now() - theirs) < 5 * LITTLE
    clock.saw(None)
    clock.saw(datetime.now(UTC) - LITTLE)
    assert abs(clock.now() - datetime.now(UTC)) < LITTLE


def test_a_claim_that_was_just_made_is_not_late_where_the_operators_clock_is_ahead() -> None:
    place = Place()
    place.tasks.know(OWNER)
    place.tasks.clock.saw(datetime.now(UTC) - timedelta(seconds=300))
    place.claim("vision", "c", "Pending", age=301)
    (status,) = place.tasks.statuses(OWNER.uid)
    assert status.failure is None
