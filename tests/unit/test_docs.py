"""The pages for users, held against what the program can say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from typer.main import get_command

from modelwright.main import make_app
from modelwright.ports import errors

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "modelwright"
REASON_AT = {
    "ready": 0,
    "reconciling": 0,
    "stalled": 0,
    "Finding": 0,
    "Notice": 1,
    "condition": 2,
    "_fail": 0,
    "Failed": 0,
}
"""Functions that take a reason by its place."""
NO_REASON = {"True", "False", "Unknown"}


def reasons() -> dict[str, str]:
    """Every reason that stands in the source, and where."""
    found = {name: "ports/errors.py" for name, value in vars(errors).items() if is_leaf(value)}
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            for literal in reasons_of(node, in_reconcile="reconcile" in path.parts):
                found.setdefault(literal, str(path.relative_to(SOURCE)))
    return {one: where for one, where in found.items() if re.fullmatch(r"[A-Z]\w+", one) and one not in NO_REASON}


def is_leaf(value: object) -> bool:
    """Whether it is an error at the end of the drawn tree: its name is the reason where none is given."""
    if not isinstance(value, type) or not issubclass(value, errors.ModelwrightError):
        return False
    return not any(below.__module__ == errors.__name__ for below in value.__subclasses__())


def reasons_of(node: ast.AST, *, in_reconcile: bool) -> Iterator[str]:
    """The reasons that a call, an assignment or an enumeration names."""
    if isinstance(node, ast.Call):
        yield from (each for keyword in node.keywords if keyword.arg == "reason" for each in texts(keyword.value))
        place = REASON_AT.get(ast.unparse(node.func).rpartition(".")[2])
        if place is not None and place < len(node.args):
            yield from texts(node.args[place])
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
        yield from texts(node.value)
    elif isinstance(node, ast.ClassDef) and in_reconcile and [ast.unparse(base) for base in node.bases] == ["Enum"]:
        yield from (each for line in node.body if isinstance(line, ast.Assign) for each in texts(line.value))


def texts(value: ast.expr) -> Iterator[str]:
    """The literals that an expression can be: itself, or either side of a condition."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.IfExp):
        yield from (*texts(value.body), *texts(value.orelse))
    elif isinstance(value, ast.BoolOp):
        yield from (each for part in value.values for each in texts(part))


def documented() -> list[str]:
    """The reasons in the first columns of the tables."""
    text = (ROOT / "docs/troubleshooting.md").read_text()
    return [word for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)]


def test_every_reason_has_its_row() -> None:
    rows, known = documented(), reasons()
    assert {reason: where for reason, where in known.items() if reason not in rows} == {}
    assert len(known) > 150, "the search itself must go on working"


def test_no_reason_has_two_rows_or_none_that_could_say_it() -> None:
    rows, known = documented(), reasons()
    assert [row for row in rows if rows.count(row) > 1] == []
    assert [row for row in rows if row not in known] == []


def test_every_verb_has_its_row_and_every_row_its_verb() -> None:
    rows = re.findall(r"^\| `([a-z ]+)", (ROOT / "docs/cli.md").read_text(), re.MULTILINE)
    assert sorted(row.strip() for row in rows) == sorted(verbs(get_command(make_app())))


def verbs(group: object, prefix: str = "") -> Iterator[str]:
    """The verbs of a group and of its groups, without those that are hidden."""
    for name, verb in getattr(group, "commands", {}).items():
        if getattr(verb, "hidden", False):
            continue
        if getattr(verb, "commands", None):
            yield from verbs(verb, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_the_map_leads_to_every_page() -> None:
    text = (ROOT / "docs/index.md").read_text()
    pages = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name != "index.md")
    pages += [f"../deploy/{page.name}" for page in sorted((ROOT / "deploy").glob("*.md"))]
    assert "../deploy/kubeedge.md" in pages
    assert [page for page in pages if f"]({page})" not in text] == []
