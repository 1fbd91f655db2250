"""The kinds of `modelwright.api` as the embedded API serves them, beside namespaces and Events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from modelwright.adapters.embedded.core import EVENTS, NAMESPACES
from modelwright.adapters.embedded.definitions import Definition, Definitions, TableFormat
from modelwright.api.admission import Admission, admit
from modelwright.api.kind import Kind
from modelwright.api.table import table_columns, table_row

Object = dict[str, Any]


def definitions_of(kinds: Iterable[Kind]) -> Definitions:
    """Everything that is served."""
    return Definitions([NAMESPACES, EVENTS, *map(_definition, kinds)])


def _definition(kind: Kind) -> Definition:
    def admitted(new: Object, old: Object | None, subresource: str) -> Admission:
        return admit(kind, new, old, subresource=subresource)

    def row(value: Object, now: datetime) -> list[Any]:
        return table_row(kind, value, now)

    return Definition(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        singular=kind.singular,
        short_names=kind.short_names,
        admit=admitted,
        table=TableFormat(table_columns(kind), row),
        categories=kind.categories,
        has_status=kind.has_status,
        scale=kind.scale,
    )
