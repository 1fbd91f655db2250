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
    server evaluate alike: has, size, ==, in, exists, all, matches, startsWith, ternary.
    """

    at: str
    rule: str
    message: str
    field_path: str = ""
    reason: str = "FieldValueInvalid"


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

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"
