"""Names of children."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from modelwright.reconcile.names import child_name
from modelwright.reconcile.version_numbers import own_number

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?", fullmatch=True)


@given(NAMES, st.text(max_size=20))
def test_a_child_name_is_a_dns_label_whatever_the_owner_is_called(owner: str, part: str) -> None:
    name = child_name(owner, "build", part)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])", name)
    assert name == child_name(owner, "build", part)


def test_another_part_gives_another_name() -> None:
    assert child_name("mv", "build", 1) != child_name("mv", "build", 2)


def test_only_a_plain_positive_integer_is_its_own_number() -> None:
    cases = {"4": 4, "04": None, "4.0": None, "-4": None, "0": None, "٤": None, "9" * 40: None}
    assert {name: own_number(name, set()) for name in cases} == cases
    assert own_number("4", {4}) is None
