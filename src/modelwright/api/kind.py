"""What is to be said once about a kind: its names, columns, rules and subresources."""

from __future__ import annotations

from typing import Any

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A printer column: `priority` 1 shows with `-o wide` only. `path` is a simple JSONPath such as `.status.image`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule (x-kubernetes-validations) at `at`, a path of field names from the root such as `spec.storage`.

    An item of a list is `[]`, a value of a map `{}`. Rules use only the CEL that kube-apiserver and the embedded
    server evaluate alike: has, size, ==, in, exists, all, matches, startsWith, ternary. `field_path`, relative to
    `at`, is where the fault is shown. `id` names the rule among those of its kind.
    """

    at: str
    rule: str
    message: str
    field_path: str = ""
    reason: str = "FieldValueInvalid"
    id: str = ""

    @property
    def on_update(self) -> bool:
        """Whether the rule compares with what was there before, and so holds at each creation."""
        return "oldSelf" in self.rule


class Misspelling(msgspec.Struct, frozen=True):
    """A field of an older draft, at `at`: it is refused with the right name, instead of being taken for unknown."""

    at: str
    wrong: str
    right: str

    @property
    def rule(self) -> Rule:
        """The rule that refuses it."""
        return Rule(
            at=self.at,
            rule=f"!has(self.{self.wrong})",
            message=f"write {self.right}: {self.wrong} is the misspelling of an older draft",
            field_path=f".{self.wrong}",
            id=f"{self.at}.{self.wrong}",
        )


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource, as paths."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


class Kind(msgspec.Struct, frozen=True):
    """A kind: `type` is its struct with fields api_version, kind, metadata, spec, status."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    type: Any
    columns: tuple[Column, ...] = ()
    rules: tuple[Rule, ...] = ()
    scale: Scale | None = None
    categories: tuple[str, ...] = ("modelwright",)
    has_status: bool = True
    misspellings: tuple[Misspelling, ...] = ()
    immutable: bool = False

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules, with those that follow from `immutable` and `misspellings`."""
        fixed = (_immutable(self.kind),) if self.immutable else ()
        return (*fixed, *(each.rule for each in self.misspellings), *self.rules)


def _immutable(kind: str) -> Rule:
    return Rule(
        at="",
        rule="self.spec == oldSelf.spec",
        message=f"the spec of a {kind} never changes: make another {kind} with a name of its own",
        field_path=".spec",
        id="spec-immutable",
    )
