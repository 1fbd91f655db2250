"""Prints the tables that the server makes (meta/v1 Table), once or as they change."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from modelwright.adapters.kubernetes.client import TABLE, KubernetesClient, Selection
from modelwright.adapters.kubernetes.watch import watch_once
from modelwright.cli.output import line, note, print_json, print_yaml, report, safe, say, styles_of, table, widths
from modelwright.ports.errors import Expired, NotFound

if TYPE_CHECKING:
    from modelwright.cli.resources import Target

JSON = dict[str, Any]
WATCH_SECONDS = 280


class Layout:
    """Which cells of a table's rows are printed; the server may leave the columns out after the first event."""

    def __init__(self, target: Target, where: Selection, *, wide: bool, prefixed: bool = False) -> None:
        self._everywhere = target.known.resource.namespaced and not where.namespace
        self._prefix = f"{target.known.label}/" if prefixed else ""
        self._wide = wide
        self._columns: list[JSON] = []

    def header(self, document: JSON) -> list[str]:
        self._columns = document.get("columnDefinitions") or self._columns
        names = [str(column.get("name", "")).upper() for column in self._columns if self._shown(column)]
        return ["NAMESPACE", *names] if self._everywhere else names

    def cells(self, row: JSON) -> list[str]:
        shown = zip(self._columns, row.get("cells") or (), strict=False)
        cells = [_text(cell) for column, cell in shown if self._shown(column)]
        if self._prefix and cells:
            cells[0] = self._prefix + cells[0]
        metadata = (row.get("object") or {}).get("metadata") or {}
        return [_text(metadata.get("namespace")), *cells] if self._everywhere else cells

    def _shown(self, column: JSON) -> bool:
        return self._wide or not column.get("priority")


def _text(cell: Any) -> str:
    if cell is None or cell == "":
        return "<none>"
    if isinstance(cell, bool):
        return str(cell).lower()
    return safe(cell)


async def show(client: KubernetesClient, chosen: list[tuple[Target, Selection]], *, wide: bool) -> bool:
    """Print each kind's objects as a table, then which of those that were named are missing; False if one is."""
    several = len({target.known for target, _ in chosen}) > 1
    found, missing = False, list[NotFound]()
    for documents in _by_kind([(target, where) for target, where in chosen]):
        target, where = documents[0]
        layout = Layout(target, where, wide=wide, prefixed=several)
        tables = [each async for each in _tables(client, documents, missing)]
        rows: list[list[str]] = []
        for document in tables:
            header = layout.header(document)
            rows += [layout.cells(row) for row in document.get("rows") or ()]
        if rows:
            if found:
                say()
            table(header, rows)
            found = True
    for absent in missing:
        report(absent.message)
    if not found and not missing:
        places = {where.namespace for _, where in chosen}
        inside = f" in namespace {places.pop()}" if len(places) == 1 and "" not in places else ""
        note(f"No resources found{inside}.")
    return not missing


async def _tables(
    client: KubernetesClient, documents: list[tuple[Target, Selection]], missing: list[NotFound]
) -> AsyncGenerator[JSON, None]:
    """The server's table of each; a named object that does not exist is put to those that are missing."""
    for each, where in documents:
        try:
            yield await client.table(each.known.resource, where, each.name)
        except NotFound as fault:
            if not each.name:
                raise
            missing.append(fault)


def _by_kind(chosen: list[tuple[Target, Selection]]) -> list[list[tuple[Target, Selection]]]:
    groups: dict[Any, list[tuple[Target, Selection]]] = {}
    for target, where in chosen:
        groups.setdefault(target.known, []).append((target, where))
    return list(groups.values())


async def watch(client: KubernetesClient, target: Target, where: Selection, output: str | None) -> None:
    """Print what there is, then every change, until interrupted."""
    if target.name:
        where = msgspec.structs.replace(where, fields=f"metadata.name={target.name}")
    if output in ("json", "yaml", "name"):
        await _watch_objects(client, target, where, output)
        return
    layout = Layout(target, where, wide=output == "wide")
    columns: list[int] = []
    async for document in _documents(client, target, where, as_table=True):
        header = layout.header(document)
        rows = [layout.cells(row) for row in document.get("rows") or ()]
        if rows and not columns:
            columns = widths([header, *rows])
            print(line(header, columns, ["bold"] * len(header)))
        for row in rows:
            print(line(row, columns, styles_of(row)), flush=True)


async def _watch_objects(client: KubernetesClient, target: Target, where: Selection, output: str) -> None:
    async for document in _documents(client, target, where, as_table=False):
        if output == "json":
            print_json(document)
        elif output == "yaml":
            say("---")
            print_yaml(document)
        else:
            say(f"{target.known.label}/{document['metadata']['name']}")


async def _documents(
    client: KubernetesClient, target: Target, where: Selection, *, as_table: bool
) -> AsyncGenerator[JSON, None]:
    """What there is, then every change; begins anew where the server has forgotten what came since."""
    resource = target.known.resource
    headers = {"Accept": TABLE} if as_table else {}
    while True:
        if as_table:
            first = await client.table(resource, where)
            version = first["metadata"]["resourceVersion"]
            yield first
        else:
            items, version = await client.list_bytes(resource, where)
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            for item in items:
                yield head | msgspec.json.decode(item, type=dict)
        try:
            while True:
                watching = watch_once(client, resource, version, where, seconds=WATCH_SECONDS, headers=headers)
                async with aclosing(watching) as changes:
                    async for change in changes:
                        document = msgspec.json.decode(change.object, type=dict[str, Any])
                        version = _version(document) or version
                        if change.type != "BOOKMARK":
                            yield document
        except Expired:
            continue


def _version(document: JSON) -> str:
    """The version of an object, or of the one in a table of one row."""
    rows: Sequence[JSON] = document.get("rows") or ()
    metadata = (rows[0].get("object") or {}).get("metadata") if rows else document.get("metadata")
    return str((metadata or {}).get("resourceVersion", ""))
