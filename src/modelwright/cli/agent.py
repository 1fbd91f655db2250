"""`modelwright agent`: what the control plane starts as child processes. Not for use by hand."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="What runs inside tasks (started by the control plane, not by hand).", no_args_is_help=True)

Arguments = Annotated[list[str] | None, typer.Argument(hidden=True)]
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command("worker")
def worker() -> None:
    """Build images and fetch models, as asked on standard input."""
    from modelwright.agent.worker import main

    main()


@app.command("run", context_settings=PASS_ON)
def run(arguments: Arguments = None) -> None:
    """Run a command, and write down how it ended."""
    from modelwright.agent.run import main

    raise typer.Exit(main(arguments or []))


@app.command("build")
def build() -> None:
    """Pack and push a model image, as the environment says."""
    from modelwright.agent.job import build

    raise typer.Exit(build())


@app.command("kaniko-prepare")
def kaniko_prepare() -> None:
    """Check the task of a Kaniko build, and write its Dockerfile."""
    from modelwright.agent.job import kaniko_prepare

    raise typer.Exit(kaniko_prepare())


@app.command("kaniko-finish")
def kaniko_finish() -> None:
    """Check and report what Kaniko has pushed."""
    from modelwright.agent.job import kaniko_finish

    raise typer.Exit(kaniko_finish())


@app.command("fetch")
def fetch() -> None:
    """Bring the models of a serving Pod, as the environment says, before its server starts."""
    from modelwright.agent.serving.fetch import main

    raise typer.Exit(main())


@app.command("keep")
def keep() -> None:
    """Keep the models of a serving Pod at the edge, and tell the server beside it which to serve."""
    from modelwright.agent.serving.keep import main

    raise typer.Exit(main())


@app.command("sweep")
def sweep() -> None:
    """Remove the models that a node kept for an owner who is gone, as the environment says."""
    from modelwright.agent.serving.sweep import main

    raise typer.Exit(main())


@app.command("probe-volume")
def probe_volume(path: Annotated[str, typer.Argument(help="Where the image is mounted.")]) -> None:
    """Tell whether a folder that is mounted from an image has files that can be read."""
    from modelwright.agent.serving.probe import main

    raise typer.Exit(main(path))
