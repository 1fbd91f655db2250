"""`modelwright wait`: wait until objects are ready, or gone."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run
from modelwright.cli.durations import DurationOption


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("wait")(wait)


def wait(
    words: Annotated[list[str], typer.Argument(metavar="KIND NAME", help="Or KIND/NAME.", show_default=False)],
    wanted: Annotated[
        str, typer.Option("--for", metavar="WHAT", help="`condition=TYPE`, `condition=TYPE=STATUS` or `delete`.")
    ] = "condition=Ready",
    timeout: DurationOption = "10m",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Wait until objects are ready, or gone.

    Ends early, with exit code 1, when one is stalled: waiting would not help.

    Example: modelwright wait mv/v1 --timeout 5m
    """
    from modelwright.cli import resources, waiting
    from modelwright.cli.durations import seconds_of
    from modelwright.cli.output import say

    seconds, condition = seconds_of(timeout), parse_wanted(wanted)

    async def verb() -> None:
        deadline = time.monotonic() + seconds
        async with Connection(kubeconfig, context, namespace).client() as client:
            for target in await resources.named(client, words):
                place = client.namespace if target.known.resource.namespaced else ""
                left = max(0.0, deadline - time.monotonic())
                if condition is None:
                    await waiting.until_gone(client, target, place, left)
                    say(f"{target.label} deleted")
                else:
                    await waiting.until_condition(client, target, place, left, *condition)
                    say(f"{target.label} condition met")

    run(verb())


def parse_wanted(text: str) -> tuple[str, str] | None:
    """The condition's type and status in `condition=TYPE[=STATUS]`, None for `delete`. Raises a usage error."""
    if text == "delete":
        return None
    word, _, rest = text.partition("=")
    type_, _, status = rest.partition("=")
    if word != "condition" or not type_:
        raise typer.BadParameter(f"{text!r} is neither `condition=TYPE` nor `delete`", param_hint="--for")
    return type_, status or "True"
