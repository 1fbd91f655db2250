"""Every rule has an object that passes and one that fails, in the embedded server's evaluation."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from tests.unit.api.cases import RULE_CASES, RuleCase

from modelwright.api.admission import admit
from modelwright.api.kind import Rule
from modelwright.api.kinds import KINDS
from modelwright.api.patterns import regex

RULES = [(kind.kind, rule) for kind in KINDS for rule in kind.all_rules]
MATCHES = re.compile(r"\.matches\('([^']*)'\)")


def test_every_rule_has_a_case() -> None:
    seen = {(case.kind.kind, case.rule.id) for case in RULE_CASES}
    assert seen == {(kind, rule.id) for kind, rule in RULES}


def test_the_names_of_a_kinds_rules_differ() -> None:
    assert all(count == 1 for count in Counter((kind, rule.id) for kind, rule in RULES).values())
    assert all(rule.id for _, rule in RULES)


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.id)
def test_a_rule_passes_its_good_object_and_refuses_its_bad_one(case: RuleCase) -> None:
    old = admit(case.kind, case.old, None).object if case.old else None
    good = admit(case.kind, case.good, old)
    assert (good.faults, good.unknown) == ((), ())
    bad = admit(case.kind, case.bad, old)
    found = [fault for fault in bad.faults if fault.field == case.field and fault.message.endswith(case.rule.message)]
    assert [fault.type for fault in found] == [case.rule.reason], bad.faults


@pytest.mark.parametrize("rule", [rule for _, rule in RULES], ids=lambda rule: rule.id)
def test_a_rule_uses_only_what_both_evaluators_know(rule: Rule) -> None:
    outside_strings = re.sub(r"'[^']*'", "''", rule.rule)
    called = set(re.findall(r"(\w+)\(", outside_strings))
    assert called <= {"has", "size", "matches", "startsWith", "all", "exists"}
    assert rule.message
    assert not rule.message.endswith(".")


def test_patterns_keep_to_what_re2_and_python_read_alike() -> None:
    for pattern in patterns():
        assert pattern.isascii()
        assert not re.search(r"\(\?|\\[A-Za-wyz0-9]|\[:", pattern), pattern
        assert regex(pattern).pattern


def test_every_pattern_comes_to_an_end_on_hostile_texts() -> None:
    """A pattern that backtracks exponentially would not: these texts are as long as the longest limit."""
    units = ("a", "a-", "a.", "a_", "a/", "-", ".", "0", "a:", ":")
    hostile = [unit * 1024 + end for unit in units for end in ("", "\n")]
    answers = [regex(pattern).search(text) is not None for pattern in patterns() for text in hostile]
    assert len(answers) == len(patterns()) * len(hostile)
    assert not all(answers)


def patterns() -> set[str]:
    found = {pattern for _, rule in RULES for pattern in MATCHES.findall(rule.rule)}
    return {pattern.replace("\\\\", "\\") for pattern in found}
