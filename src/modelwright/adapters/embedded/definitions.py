"""What the embedded API serves: the kinds of `modelwright.api`, and of the core group namespaces and Events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from modelwright.api.admission import Admission
from modelwright.api.kind import Scale

Object = dict[str, Any]


Admit = Callable[[Object, Object | None, str], Admission]
"""(new, old or None, subresource) -> Admission: pure, as modelwright.api.admission.admit."""


class TableFormat(msgspec.Struct, frozen=True):
    """How an object is shown on a terminal: column definitions of meta/v1 Table, and the cells of a row."""

    columns: list[dict[str, Any]]
    row: Callable[[Object, datetime], list[Any]]


class Definition(msgspec.Struct, frozen=True, eq=False):
    """One resource that is served. `fields` are what field selectors may name beside name and namespace."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    admit: Admit
    table: TableFormat
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = True
    has_generation: bool = True
    fields: frozenset[str] = frozenset()
    scale: Scale | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural.group`: how the store and messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """`Kind.group`: how messages about a broken object name it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


class Definitions:
    """All resources that are served, in order."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self._all = tuple(definitions)
        self._by_plural = {(item.group, item.version, item.plural): item for item in self._all}
        self._by_kind = {(item.api_version, item.kind): item for item in self._all}

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._all)

    def by_plural(self, group: str, version: str, plural: str) -> Definition | None:
        return self._by_plural.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Definition | None:
        return self._by_kind.get((api_version, kind))

    def knows(self, api_version: str, kind: str) -> bool:
        return (api_version, kind) in self._by_kind

    def groups(self) -> list[tuple[str, str]]:
        """(group, version) in order of first mention."""
        return list(dict.fromkeys((item.group, item.version) for item in self._all))

    def of_group(self, group: str, version: str) -> list[Definition]:
        return [item for item in self._all if (item.group, item.version) == (group, version)]
