"""`modelwright crds`: print the custom resource definitions."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("crds")(crds)


def crds() -> None:
    """Print the custom resource definitions of all kinds, to apply them to a cluster.

    For example: modelwright crds | kubectl apply --server-side -f -
    """
    import yaml

    from modelwright.api.crd import crd
    from modelwright.api.kinds import KINDS

    typer.echo(yaml.safe_dump_all([crd(kind) for kind in KINDS], sort_keys=False, width=120), nl=False)
