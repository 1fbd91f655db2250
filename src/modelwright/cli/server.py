"""`modelwright server`: the model server, by hand."""

from __future__ import annotations

from typing import Annotated

import typer

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Add the verb; its options are those of `modelwright.serve`, which starts without the rest of the program."""
    app.command("server", context_settings=PASS_ON)(server)


def server(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Serve one model: Open Inference Protocol v2, and TensorFlow Serving's REST. See `modelwright server --help`."""
    from modelwright.serve.__main__ import main

    raise typer.Exit(main(arguments or []))
