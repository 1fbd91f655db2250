"""`modelwright gateway`: joint inference, by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from modelwright.cli.server import PASS_ON


def register(app: typer.Typer) -> None:
    """Add the verb; its options are those of `modelwright.gateway`, which starts without the rest of the program."""
    app.command("gateway", context_settings=PASS_ON)(gateway)


def gateway(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Let an edge model and a cloud model answer as one. See `modelwright gateway --help`."""
    from modelwright.gateway.__main__ import main

    raise typer.Exit(main(arguments or []))
