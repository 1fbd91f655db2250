"""Trying again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modelwright.oci.retry import Retry
from modelwright.ports.errors import Conflict, Invalid, ModelwrightError, Unavailable


def failing(*errors: ModelwrightError) -> Callable[[], str]:
    left = list(errors)

    def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return attempt


def test_what_may_mend_itself_is_tried_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    retry = Retry(5, 1.0, pause=pauses.append)
    assert retry.run(failing(*[Unavailable("down")] * 4)) == "done"
    assert [0.5 <= pause / 2**number <= 1.0 for number, pause in enumerate(pauses)] == [True] * 4


@pytest.mark.parametrize("error", [Invalid("wrong"), Conflict("changed"), Unavailable("busy", after=1000.0)])
def test_what_does_not_is_not(error: ModelwrightError) -> None:
    pauses: list[float] = []
    with pytest.raises(type(error)):
        Retry(pause=pauses.append).run(failing(error))
    assert not pauses


def test_the_other_side_is_given_the_time_it_asks_for() -> None:
    pauses: list[float] = []
    Retry(pause=pauses.append).run(failing(Unavailable("busy", after=30.0)))
    assert pauses == [30.0]
