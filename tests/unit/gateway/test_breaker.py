"""The breaker opens after failures in a row, and one request shows whether it can be closed."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from modelwright.gateway.breaker import FAILURES, FIRST_PAUSE, LONGEST_PAUSE, Breaker, Leave


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES):
        leave = breaker.ask(0)
        assert leave is not None
        breaker.failed(leave, 0)
    return breaker


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    breaker = Breaker()
    for _ in range(3):
        for _ in range(FAILURES - 1):
            breaker.failed(Leave(probe=False), 0)
        breaker.succeeded(Leave(probe=False))
    assert breaker.position == "closed"
    assert opened().position == "open"


def test_after_the_pause_one_request_is_let_through() -> None:
    breaker = opened()
    assert breaker.ask(FIRST_PAUSE - 0.01) is None
    assert breaker.wait(0) == FIRST_PAUSE
    assert breaker.ask(FIRST_PAUSE) == Leave(probe=True)
    assert breaker.ask(FIRST_PAUSE) is None
    assert breaker.position == "half-open"


def test_a_probe_that_is_answered_closes_it() -> None:
    breaker = opened()
    leave = breaker.ask(FIRST_PAUSE)
    assert leave is not None
    breaker.succeeded(leave)
    assert (breaker.position, breaker.wait(FIRST_PAUSE)) == ("closed", 0)


def test_a_probe_that_fails_doubles_the_pause_up_to_a_limit() -> None:
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(8):
        pauses.append(breaker.wait(now))
        now += pauses[-1]
        leave = breaker.ask(now)
        assert leave is not None
        breaker.failed(leave, now)
    assert pauses == [1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_requests_from_before_do_not_lengthen_the_pause() -> None:
    breaker = opened()
    for _ in range(50):
        breaker.failed(Leave(probe=False), 0.5)
    assert breaker.wait(0) == FIRST_PAUSE


def test_a_probe_that_says_nothing_lets_another_one_through() -> None:
    breaker = opened()
    leave = breaker.ask(FIRST_PAUSE)
    assert leave is not None
    breaker.undecided(leave)
    assert breaker.ask(FIRST_PAUSE) == Leave(probe=True)


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, there is one probe at most, and leave is always given again."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker, self.now, self.leaves = Breaker(), 0.0, list[Leave]()

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def ask(self) -> None:
        leave = self.breaker.ask(self.now)
        if leave is not None:
            self.leaves.append(leave)

    @rule(how=st.sampled_from(["succeeded", "failed", "undecided"]))
    def end(self, how: str) -> None:
        if not self.leaves:
            return
        leave = self.leaves.pop(0)
        if how == "failed":
            self.breaker.failed(leave, self.now)
        else:
            getattr(self.breaker, how)(leave)

    @invariant()
    def leave_is_given_again(self) -> None:
        if not self.leaves:
            assert self.breaker.wait(self.now) <= LONGEST_PAUSE
            leave = self.breaker.ask(self.now + LONGEST_PAUSE)
            assert leave is not None
            self.breaker.undecided(leave)


AnyOrder.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
test_in_any_order = AnyOrder.TestCase
