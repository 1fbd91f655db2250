"""Some writes at once, then now and then."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelwright.engine.pace import Pace


def test_as_many_as_the_burst_follow_one_another_at_once() -> None:
    pace: Pace[str] = Pace(3, 5.0)
    for _ in range(3):
        assert pace.rest("digits", 100.0) == 0
        pace.wrote("digits", 100.0)
    assert pace.rest("digits", 100.0) == 5.0
    assert pace.rest("digits", 104.0) == 1.0
    assert pace.rest("digits", 105.0) == 0
    assert pace.rest("iris", 100.0) == 0, "each has its own"


def test_who_has_rested_long_has_the_whole_burst_again() -> None:
    pace: Pace[str] = Pace(2, 5.0)
    for _ in range(2):
        pace.wrote("digits", 100.0)
    pace.wrote("digits", 1000.0)
    assert pace.rest("digits", 1000.0) == 0


def test_what_is_forgotten_begins_anew() -> None:
    pace: Pace[str] = Pace(1, 5.0)
    pace.wrote("digits", 100.0)
    assert pace.rest("digits", 100.0)
    pace.forget("digits")
    assert pace.rest("digits", 100.0) == 0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=60), st.integers(1, 6), st.floats(0.5, 10))
def test_who_waits_as_told_writes_no_more_than_the_burst_and_one_for_each_pause(
    pauses: list[float], burst: int, seconds: float
) -> None:
    pace: Pace[str] = Pace(burst, seconds)
    now, times = 0.0, list[float]()
    for pause in pauses:
        now += pause + pace.rest("digits", now + pause)
        times.append(now)
        pace.wrote("digits", now)
    for first, began in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + (times[last] - began) / seconds + 1e-6
