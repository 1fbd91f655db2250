"""`modelwright get`: what there is, as the server prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient, Selection
    from modelwright.cli.resources import Target

Format = Literal["wide", "name", "json", "yaml"]

WordsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="KIND [NAME]", help="Such as `mv`, `mv v1 v2`, `modelversion/v1`, `mo,mv`.", show_default=False
    ),
]
SelectorOption = Annotated[
    str, typer.Option("--selector", "-l", metavar="LABELS", help="Only what has these labels.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("get")(get)


def get(
    words: WordsArgument,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", metavar="", help="In every namespace.")
    ] = False,
    output: Annotated[Format | None, typer.Option("--output", "-o", help="How to print.", show_default=False)] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", metavar="", help="Go on with every change, until Ctrl-C.")
    ] = False,
    selector: SelectorOption = "",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """List objects of a kind, or show some.

    Kinds: models (mo), modelversions (mv), inferencemodels (infm),
    trainingmodels (tm), jointinferenceservices (jis); `modelwright` means all.

    Example: modelwright get mv -o wide
    """
    from modelwright.cli import resources, tables

    async def verb() -> int:
        async with Connection(kubeconfig, context, namespace).client() as client:
            targets = await resources.targets(client, words)
            _check(targets, watch=watch, all_namespaces=all_namespaces, selector=selector)
            chosen = [(target, _where(client, target, all_namespaces, selector)) for target in targets]
            if watch:
                await tables.watch(client, *chosen[0], output)
            elif output in ("json", "yaml", "name"):
                await _print_objects(client, chosen, output)
            else:
                return 0 if await tables.show(client, chosen, wide=output == "wide") else 1
        return 0

    run(verb())


def _check(targets: list[Target], *, watch: bool, all_namespaces: bool, selector: str) -> None:
    if watch and len(targets) > 1:
        raise typer.BadParameter("one kind or object can be watched at a time", param_hint="--watch")
    if any(target.name for target in targets) and (all_namespaces or selector):
        raise typer.BadParameter("a name needs neither --all-namespaces nor --selector", param_hint="NAME")


def _where(client: KubernetesClient, target: Target, all_namespaces: bool, selector: str) -> Selection:
    from modelwright.adapters.kubernetes.client import Selection

    everywhere = all_namespaces or not target.known.resource.namespaced
    return Selection("" if everywhere else client.namespace, labels=selector)


async def _print_objects(
    client: KubernetesClient, chosen: list[tuple[Target, Selection]], output: Literal["json", "yaml", "name"]
) -> None:
    from modelwright.cli.output import print_json, print_yaml, say

    found: list[dict[str, Any]] = []
    for target, where in chosen:
        resource = target.known.resource
        if target.name:
            objects = [await client.get(resource, where.namespace, target.name)]
        else:
            # The items of a list come without the kind, which every object needs to stand alone.
            head = {"apiVersion": resource.api_version, "kind": resource.kind}
            objects = [{**head, **each} for each in await client.list(resource, where)]
        found += objects
        if output == "name":
            for each in objects:
                say(f"{target.known.label}/{each['metadata']['name']}")
    if output == "name":
        return
    one = len(chosen) == 1 and bool(chosen[0][0].name)
    document = found[0] if one else {"apiVersion": "v1", "kind": "List", "items": found}
    (print_json if output == "json" else print_yaml)(document)
