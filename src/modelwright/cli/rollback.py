"""`modelwright rollback`: serve again what was served before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run
from modelwright.cli.served import ServedArgument

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("rollback")(rollback)


def rollback(
    name: ServedArgument,
    version: Annotated[
        str, typer.Option("--to", metavar="VERSION", help="A version that was served; by default the one before.")
    ] = "",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Serve again what was served before: writes it back into the spec. The switch fails no request.

    Example: modelwright rollback infm/digits
    """

    async def verb() -> int:
        async with Connection(kubeconfig, context, namespace).client() as client:
            return await roll_back(client, name, version)

    run(verb())


async def roll_back(client: KubernetesClient, word: str, version: str) -> int:
    """Patch the spec, on the condition that nobody has changed the object meanwhile."""
    from modelwright.adapters.kubernetes.resource import of_kind
    from modelwright.api.kinds import INFERENCE_MODEL
    from modelwright.cli import served
    from modelwright.cli.output import report, say
    from modelwright.reconcile import rollback as past

    model = await served.find(client, word)
    keeper = next((owner for owner in model.metadata.owner_references if owner.controller), None)
    if keeper is not None:
        report(f"{model.metadata.name} is kept as {keeper.kind} {keeper.name} says: change the spec there")
        return 1
    source = past.former_source(model, version)
    if source is None:
        kept = ", ".join(dict.fromkeys(past.name_of(entry.source) for entry in model.status.history)) or "nothing"
        wanted = f"version {version}" if version else "another version"
        report(f"{model.metadata.name} has not served {wanted} before (its history has: {kept})")
        return 1
    patch = {
        "metadata": {"resourceVersion": model.metadata.resource_version},
        "spec": past.spec_patch(model, source),
    }
    await client.merge_patch(of_kind(INFERENCE_MODEL), model.metadata.namespace, model.metadata.name, patch)
    say(f"inferencemodel.sedna.io/{model.metadata.name} rolled back to {past.name_of(source)}")
    return 0
