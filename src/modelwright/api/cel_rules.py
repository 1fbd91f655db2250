"""The CEL rules of a kind, compiled once, and applied to an object whose schema has been checked.

The library has no cost limit: limits on lengths and counts must have been enforced before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cel
import msgspec

from modelwright.api.faults import Fault, Place, quoted, spelled
from modelwright.api.kind import Rule
from modelwright.api.patterns import regex

_WORDS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueDuplicate": "Duplicate value",
}


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule with its program."""

    rule: Rule
    program: Any

    def holds(self, context: cel.Context) -> bool:
        """Whether the rule holds; one that cannot be evaluated does not, as on kube-apiserver."""
        try:
            return self.program.execute(context) is True
        except Exception:
            return False


_MATCHES = "matchesRegex"
# The library compiles a regular expression anew for each value, which costs fifty times what all the rest does:
# rules are compiled with `matches` renamed to a function of our own. Patterns keep to what RE2 and Python's re share.


def _matches(text: str, pattern: str) -> bool:
    return regex(pattern).search(text) is not None


_FUNCTIONS = {_MATCHES: _matches}


def _compiled(rule: Rule) -> CompiledRule:
    return CompiledRule(rule, cel.compile(rule.rule.replace(".matches(", f".{_MATCHES}(")))


class Rules:
    """The rules of a kind, as a tree along the fields that they are about."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._here = [_compiled(rule) for rule in rules if not rule.at]
        steps: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.at:
                step, rest = _first_step(rule.at)
                steps.setdefault(step, []).append(msgspec.structs.replace(rule, at=rest))
        self._inner = {step: Rules(tuple(inner)) for step, inner in steps.items()}

    def faults(self, value: Any, old: Any = None, place: Place = ()) -> Iterator[Fault]:
        """What breaks a rule. Rules with oldSelf are about the object itself, and only asked if there is an old one."""
        asked = [rule for rule in self._here if old is not None or not rule.rule.on_update]
        if asked:
            variables = {"self": value} if old is None else {"self": value, "oldSelf": old}
            context = cel.Context(variables, _FUNCTIONS)
            yield from (_fault(rule.rule, value, place) for rule in asked if not rule.holds(context))
        for step, inner in self._inner.items():
            for place_within, part in _parts(value, step, place):
                yield from inner.faults(part, None, place_within)


def _first_step(path: str) -> tuple[str, str]:
    if path.startswith(("[]", "{}")):
        return path[:2], path[2:].removeprefix(".")
    ends = [end for end in (path.find("."), path.find("[]"), path.find("{}")) if end > 0]
    end = min(ends, default=len(path))
    return path[:end], path[end:].removeprefix(".")


def _parts(value: Any, step: str, place: Place) -> Iterator[tuple[Place, Any]]:
    if step == "[]":
        yield from (((place, index), item) for index, item in enumerate(value))
    elif step == "{}":
        yield from (((place, key), item) for key, item in value.items())
    elif step in value:
        yield (place, step), value[step]


def _fault(rule: Rule, value: Any, place: Place) -> Fault:
    shown = rule.reason == "FieldValueInvalid" and not rule.field_path and not isinstance(value, dict | list)
    detail = f"{quoted(value)}: {rule.message}" if shown else rule.message
    field = (spelled(place) + rule.field_path).removeprefix(".")
    return Fault(field, rule.reason, f"{_WORDS[rule.reason]}: {detail}")
