"""How long is waited after a failure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modelwright.engine.backoff import Backoff
from modelwright.reconcile.retries import jitter


@given(st.text())
def test_jitter_is_the_same_for_the_same_seed_and_within_a_fifth(seed: str) -> None:
    assert 0.8 <= jitter(seed) < 1.2
    assert jitter(seed) == jitter(seed)


def test_each_failure_waits_about_twice_as_long_up_to_the_limit() -> None:
    backoff = Backoff(base=1.0, limit=60.0)
    waits = [backoff.next("key") for _ in range(12)]
    assert all(0.8 * min(60, 2**n) <= wait <= 1.2 * min(60, 2**n) for n, wait in enumerate(waits))


def test_success_starts_over_for_that_key_alone() -> None:
    backoff = Backoff(base=1.0)
    for _ in range(5):
        backoff.next("a")
        backoff.next("b")
    backoff.reset("a")
    assert backoff.next("a") < 2 < backoff.next("b")
