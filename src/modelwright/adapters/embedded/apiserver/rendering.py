"""Objects in the format that was asked for: as they are stored, as metadata only, or as a Table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from modelwright.adapters.embedded.apiserver.negotiation import Format
from modelwright.adapters.embedded.definitions import Definition
from modelwright.adapters.embedded.history import Entry

META = "meta.k8s.io/v1"


def one(definition: Definition, format_: Format, entry: Entry) -> bytes:
    """A single object."""
    if format_ == "object":
        return entry.value
    if format_ == "Table":
        return msgspec.json.encode({**table(definition, [entry]), "metadata": {"resourceVersion": str(entry.version)}})
    return msgspec.json.encode(_partial(msgspec.json.decode(entry.value)))


def parts(
    definition: Definition, format_: Format, entries: Iterable[Entry], metadata: dict[str, Any]
) -> Iterator[bytes]:
    """The pieces of a list, in order; joined they are the document."""
    head, items = _frame(definition, format_, metadata)
    yield head
    separator = b""
    for piece in items_of(definition, format_, entries):
        yield separator + piece
        separator = b","
    yield items


def items_of(definition: Definition, format_: Format, entries: Iterable[Entry]) -> Iterator[bytes]:
    """The items of a list, encoded one by one."""
    if format_ == "object":
        return (entry.value for entry in entries)
    now = datetime.now(UTC)
    make = _partial if format_ == "PartialObjectMetadata" else lambda value: _row(definition, value, now)
    return (msgspec.json.encode(make(msgspec.json.decode(entry.value))) for entry in entries)


def table(definition: Definition, entries: Iterable[Entry], *, columns: bool = True) -> dict[str, Any]:
    """A Table of objects; a watch sends the columns only once."""
    now = datetime.now(UTC)
    rows = [_row(definition, msgspec.json.decode(entry.value), now) for entry in entries]
    return {
        "kind": "Table",
        "apiVersion": META,
        "metadata": {},
        "columnDefinitions": definition.table.columns if columns else [],
        "rows": rows,
    }


def _frame(definition: Definition, format_: Format, metadata: dict[str, Any]) -> tuple[bytes, bytes]:
    if format_ == "Table":
        columns = definition.table.columns
        head = {"kind": "Table", "apiVersion": META, "metadata": metadata, "columnDefinitions": columns}
        return msgspec.json.encode(head)[:-1] + b',"rows":[', b"]}"
    partial = format_ == "PartialObjectMetadata"
    kind = "PartialObjectMetadataList" if partial else f"{definition.kind}List"
    version = META if partial else definition.api_version
    head = {"apiVersion": version, "kind": kind, "metadata": metadata}
    return msgspec.json.encode(head)[:-1] + b',"items":[', b"]}"


def _partial(value: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": value["metadata"]}


def _row(definition: Definition, value: dict[str, Any], now: datetime) -> dict[str, Any]:
    return {"cells": definition.table.row(value, now), "object": _partial(value)}
