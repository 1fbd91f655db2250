"""How verbs print: plain text for programs, colour for people, and nothing that a server says can steer a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

Style = Literal["good", "bad", "busy", "dim", "bold"]
CODES: dict[Style, str] = {"good": "32", "bad": "31", "busy": "33", "dim": "2", "bold": "1"}

# Control characters, and the marks that make text look as if it ran the other way.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSAFE_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_GAP = "   "


def safe(text: object, *, lines: bool = False) -> str:
    """The text with control characters spelled out; with `lines`, newlines and tabs stay."""
    pattern = _UNSAFE_LINES if lines else _UNSAFE
    return pattern.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text))


def say(text: str = "") -> None:
    """A line of plain text to stdout; what is painted is printed as it is, after `safe`."""
    print(safe(text, lines=True), flush=True)


def report(text: str) -> None:
    """An error to stderr, under the program's name."""
    print(f"{paint('error', 'bad', sys.stderr)}: {safe(text, lines=True)}", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """A remark to stderr: what a person wants to know and a pipe must not get."""
    print(safe(text, lines=True), file=sys.stderr, flush=True)


def colourful(stream: TextIO) -> bool:
    """Whether to colour what goes there: a terminal that can, and nobody who set NO_COLOR (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: Style, stream: TextIO | None = None) -> str:
    """The text in a style, where colour is wanted."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if colourful(stream or sys.stdout) else text


def console(*, stderr: bool = False) -> Console:
    """A rich console for what is more than lines and columns; escape what comes from a server with `safe` first."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True, markup=False)


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide each column is."""
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def line(cells: Sequence[str], columns: Sequence[int], styles: Sequence[Style | None] = ()) -> str:
    """One row, its cells filled up to their columns' widths, the last one not."""
    from rich.cells import cell_len

    parts = []
    for number, cell in enumerate(cells):
        style = styles[number] if number < len(styles) else None
        fill = " " * max(0, columns[number] - cell_len(cell)) + _GAP if number < len(cells) - 1 else ""
        parts.append((paint(cell, style) if style else cell) + fill)
    return "".join(parts)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    indent: str = "",
    styles: Callable[[Sequence[str]], Sequence[Style | None]] | None = None,
) -> None:
    """A header and rows in columns to stdout; `styles` says how to paint a row, by default what its cells say."""
    shown = [[safe(cell) for cell in row] for row in rows]
    columns = widths([header, *shown])
    print(indent + line(header, columns, ["bold"] * len(header)))
    for row in shown:
        print(indent + line(row, columns, (styles or styles_of)(row)))


def styles_of(row: Sequence[str]) -> list[Style | None]:
    """The styles of cells that say how things stand; None for any other."""
    return [_STYLES.get(cell) for cell in row]


_STYLES: dict[str, Style] = {
    **dict.fromkeys(("True", "Ready", "Succeeded", "ImageBuildSucceeded", "Active"), "good"),
    **dict.fromkeys(("False", "Failed", "ImageBuildFailed", "Warning"), "bad"),
    **dict.fromkeys(("Unknown", "Pending", "Running", "ImageBuilding", "Terminating"), "busy"),
    "<none>": "dim",
}


def print_json(value: Any) -> None:
    """A value (plain or a struct) as JSON, two spaces deep."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    print(_UNSAFE_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_tensors(value: Any) -> None:
    """A model's answer as JSON: objects and rows two spaces deep, the numbers of a row beside each other."""
    print(_UNSAFE_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", _tensors(value, "\n")))


def _tensors(value: Any, newline: str) -> str:
    import json

    nested = isinstance(value, (dict, list)) and (isinstance(value, dict) or any(map(_holds, value)))
    if not nested or not value:
        return json.dumps(value, ensure_ascii=False)
    deeper = newline + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {_tensors(each, deeper)}" for key, each in value.items()]
        return "{" + deeper + f",{deeper}".join(parts) + newline + "}"
    return "[" + deeper + f",{deeper}".join(_tensors(each, deeper) for each in value) + newline + "]"


def _holds(value: Any) -> bool:
    return isinstance(value, (dict, list))


def print_yaml(value: Any, *, several: bool = False) -> None:
    """A value (plain or a struct) as YAML; a sequence as several documents if it is that."""
    print(to_yaml(list(value) if several else [value]), end="")


def to_yaml(documents: Sequence[Any]) -> str:
    """YAML that escapes whatever is not printable."""
    import msgspec
    import yaml

    plain = msgspec.to_builtins(list(documents))
    # Without a bound on the width, long messages stay on one line and can be searched for.
    return yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=10**6)
