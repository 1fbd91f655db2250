"""The program: which verb is which function. Nothing else is decided here."""

from __future__ import annotations

import sys

import typer

from modelwright import __version__
from modelwright.cli import (
    agent,
    apply,
    crds,
    delete,
    describe,
    diff,
    doctor,
    gateway,
    get,
    image,
    lineage,
    logs,
    predict,
    rollback,
    server,
)
from modelwright.cli import wait as wait_verb
from modelwright.cli.output import report
from modelwright.operator import verb as operator_verb
from modelwright.ports.errors import ModelwrightError
from modelwright.up import verb as up_verb

VERBS = (
    up_verb,
    operator_verb,
    apply,
    get,
    describe,
    wait_verb,
    logs,
    predict,
    lineage,
    diff,
    rollback,
    delete,
    doctor,
    crds,
    server,
    gateway,
)


def make_app() -> typer.Typer:
    """The command line with all its verbs."""
    app = typer.Typer(
        name="modelwright",
        help="An operator for the life of machine-learning models: version, trace and serve them.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(callback)
    for verb in VERBS:
        verb.register(app)
    app.add_typer(image.app, name="image")
    app.add_typer(agent.app, name="agent", hidden=True)
    return app


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"modelwright {__version__}")
        raise typer.Exit


def callback(
    version: bool = typer.Option(
        False,  # noqa: FBT003
        "--version",
        help="Print the version and exit.",
        is_eager=True,
        callback=print_version,
    ),
) -> None:
    """Options of the program itself."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage."""
    try:
        make_app()()
    except ModelwrightError as error:
        report(error.message)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
