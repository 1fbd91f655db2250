"""`modelwright doctor`: what is missing on this machine, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption

if TYPE_CHECKING:
    from modelwright.cli.examinations import Examination


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Look at this machine and say what is missing, and how to mend it.

    Ends with exit code 1 if something is missing that nothing works without; a warning is none.
    """
    import asyncio

    from modelwright.cli import examinations
    from modelwright.cli.output import print_json

    found = asyncio.run(examinations.examine(Connection(kubeconfig, context)))
    if output == "json":
        print_json(found)
    else:
        show(found)
    if any(examination.state == "missing" for examination in found):
        raise typer.Exit(1)


def show(found: list[Examination]) -> None:
    """A line for each examination, and below it what to do where something is to be done."""
    from modelwright.cli.output import Style, paint, safe

    styles: dict[str, Style] = {"ok": "good", "warning": "busy", "missing": "bad"}
    width = max(len(each.name) for each in found)
    for each in found:
        print(f"{paint(f'{each.state:7}', styles[each.state])}   {each.name:{width}}   {safe(each.found)}")
        if each.mend:
            print(f"{'':7}   {'':{width}}   → {safe(each.mend)}")
