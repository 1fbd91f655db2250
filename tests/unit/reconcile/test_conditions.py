"""How conditions keep their times, and which change is worth an Event."""

from __future__ import annotations

from tests.unit.reconcile.make import NOW, seconds

from modelwright.reconcile import conditions


def test_a_condition_whose_status_stays_keeps_its_time() -> None:
    first = conditions.settle(conditions.reconciling("Fetching", "1 of 2"), (), 1, NOW)
    second = conditions.settle(conditions.reconciling("Loading", "soon"), first, 2, NOW + seconds(5))
    assert [condition.last_transition_time for condition in second] == [NOW, NOW, NOW]
    assert second[0].message == "soon"
    assert second[0].observed_generation == 2


def test_a_condition_whose_status_changes_has_a_new_time() -> None:
    first = conditions.settle(conditions.reconciling("Fetching", ""), (), 1, NOW)
    second = conditions.settle(conditions.ready("Serving", ""), first, 1, NOW + seconds(5))
    assert [condition.last_transition_time for condition in second] == [NOW + seconds(5)] * 2 + [NOW]


def test_one_change_of_state_is_one_event() -> None:
    before = conditions.reconciling("Loading", "")
    (told,) = conditions.transitions(before, conditions.stalled("ModelInvalid", "no .onnx file"))
    assert (told.type, told.reason, told.message) == ("Warning", "ModelInvalid", "no .onnx file")


def test_a_new_message_alone_is_no_event() -> None:
    before = conditions.reconciling("Fetching", "1 of 2")
    assert conditions.transitions(before, conditions.reconciling("Fetching", "2 of 2")) == ()


def test_a_very_long_message_is_cut() -> None:
    (first, *_) = conditions.settle(conditions.stalled("Long", "x" * 10_000), (), 1, NOW)
    assert len(first.message) == conditions.MESSAGE_LIMIT
