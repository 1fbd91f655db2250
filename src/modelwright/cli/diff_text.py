"""How a difference between two versions is told to people."""

from __future__ import annotations

from collections.abc import Sequence

from modelwright.cli.output import Style, paint, safe, say, table
from modelwright.cli.units import counted, readable
from modelwright.lineage.difference import Change, ChangedFile, Difference, File, Files, Metric, Version
from modelwright.lineage.drawing import number, short

MAX_FILES = 100
NOTHING = "-"
_FIELDS = {
    "createdBy": "created by",
    "trainingModel": "training",
    "parents": "base versions",
    "baseImage": "base image",
}
_SIGNS: dict[str, Style] = {"+": "good", "-": "bad", "~": "busy"}


def print_text(told: Difference) -> None:
    """To stdout: single fields, metrics, parameters, data sets, files; what is the same is left out."""
    rows = [_image("image", told), *map(_field, told.changes)]
    _table("", [told.before.name, told.after.name], rows)
    if told.metrics:
        _table("METRIC", [told.before.name, told.after.name, "DIFFERENCE"], [_metric(each) for each in told.metrics])
    if told.parameters:
        _table("PARAMETER", [told.before.name, told.after.name], [_row(each) for each in told.parameters])
    if told.datasets:
        _table("DATA SET", [told.before.name, told.after.name], [_row(each) for each in told.datasets])
    say()
    if told.files is None:
        say(f"Files: not compared: {told.files_unknown}")
    else:
        _print_files(told.files)


def _table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    if title:
        say()
    table([title, *map(safe, columns)], rows, styles=_styles)


def _styles(row: Sequence[str]) -> list[Style | None]:
    return ["dim" if cell == NOTHING else None for cell in row]


def _image(name: str, told: Difference) -> list[str]:
    return [name, _contents(told.before), _contents(told.after)]


def _contents(version: Version) -> str:
    if not version.digest:
        return NOTHING
    files = f", {counted(version.files, 'file')}" if version.files else ""
    return f"{short(version.digest)} ({readable(version.size_bytes)}{files})"


def _field(change: Change) -> list[str]:
    return [_FIELDS.get(change.name, change.name), _value(change.before), _value(change.after)]


def _row(change: Change) -> list[str]:
    return [change.name, _value(change.before), _value(change.after)]


def _value(text: str) -> str:
    shown = short(text) if text.startswith("sha256:") else text
    return (shown if len(shown) <= 80 else f"{shown[:77]}...") or NOTHING


def _metric(metric: Metric) -> list[str]:
    values = [NOTHING if value is None else number(value) for value in (metric.before, metric.after)]
    change = metric.difference
    sign = "+" if change is not None and change > 0 else ""
    return [metric.name, *values, NOTHING if change is None else f"{sign}{number(change)}" if change else "same"]


def _print_files(files: Files) -> None:
    counts = [
        f"{len(found)} {what}"
        for found, what in ((files.added, "added"), (files.removed, "removed"), (files.changed, "changed"))
        if found
    ]
    shared = f"{counted(files.layers.shared, 'layer')} shared ({readable(files.layers.shared_bytes)})"
    new = f"{counted(files.layers.only_to, 'new layer')} ({readable(files.layers.only_to_bytes)})"
    print(f"{paint('Files:', 'bold')} {', '.join(counts) or 'the same'}; {shared}, {new}")
    lines = sorted(
        [
            *((file.path, "+", _file(file)) for file in files.added),
            *((file.path, "-", _file(file)) for file in files.removed),
            *((file.path, "~", _changed(file)) for file in files.changed),
        ]
    )
    for path, sign, text in lines[:MAX_FILES]:
        print(f"{paint(sign, _SIGNS[sign])} {safe(path)}  {safe(text)}")
    if len(lines) > MAX_FILES:
        say(f"and {len(lines) - MAX_FILES:,} more: -o json lists them")


def _file(file: File) -> str:
    return f"{readable(file.size_bytes)}  {_identity(file)}"


def _changed(file: ChangedFile) -> str:
    sizes = f"{readable(file.before.size_bytes)} -> {readable(file.after.size_bytes)}"
    return f"{sizes}  {_identity(file.before)} -> {_identity(file.after)}"


def _identity(file: File) -> str:
    return short(file.digest) if file.digest else f"layer {short(file.layer)}"
