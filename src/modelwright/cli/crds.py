"""`modelwright crds`: print the custom resource definitions."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("crds")(crds)


def crds() -> None:
    """Print the custom resource definitions of all kinds, to apply them to a cluster.

    Example: modelwright crds | kubectl apply --server-side --field-manager=modelwright -f -
    """
    from modelwright.api.generate import crds_yaml

    typer.echo(crds_yaml(), nl=False)
