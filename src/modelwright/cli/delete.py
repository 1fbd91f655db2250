"""`modelwright delete`: delete objects, and wait until they are gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, failing_clearly, run
from modelwright.cli.durations import DurationOption

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient, Propagation
    from modelwright.cli.manifests import Manifest
    from modelwright.cli.resources import Target

Cascade = Literal["background", "foreground", "orphan"]
PROPAGATION: dict[Cascade, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("delete")(delete)


def delete(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="KIND NAME", help="Or KIND/NAME.", show_default=False)
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--filename", "-f", metavar="FILE|DIR|-", help="Delete what these describe.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", metavar="", help="All of the kind in the namespace.")] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="All with these labels.", show_default=False)
    ] = "",
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", metavar="", help="What is not there is fine.")
    ] = False,
    cascade: Annotated[Cascade, typer.Option(help="What becomes of what the object owns.")] = "background",
    wait: Annotated[bool, typer.Option(metavar="", help="Wait until it is gone.")] = True,
    timeout: DurationOption = "10m",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Delete objects. Deleting a Model deletes its versions; pushed images and your own files stay.

    Example: modelwright delete infm/digits
    """
    from modelwright.cli import waiting
    from modelwright.cli.durations import seconds_of
    from modelwright.cli.manifests import read_manifests

    seconds = seconds_of(timeout)
    if bool(words) == bool(files):
        raise typer.BadParameter("either KIND NAME or -f FILE is needed", param_hint="KIND NAME")

    with failing_clearly():
        manifests = read_manifests(files) if files else []

    async def verb() -> int:
        async with Connection(kubeconfig, context, namespace).client() as client:
            if manifests:
                chosen = await _described(client, manifests, namespace or "")
            else:
                chosen = await _chosen(client, words or [], every=every, selector=selector)
            results = [await _delete(client, *each, cascade, ignore_not_found) for each in chosen]
            if wait:
                for (target, place), deleted in zip(chosen, results, strict=True):
                    if deleted:
                        await waiting.until_gone(client, target, place, seconds, uid=deleted)
            return 0 if all(deleted is not None for deleted in results) else 1

    run(verb())


async def _chosen(
    client: KubernetesClient, words: list[str], *, every: bool, selector: str
) -> list[tuple[Target, str]]:
    from modelwright.adapters.kubernetes.client import Selection
    from modelwright.cli import resources

    found = await resources.targets(client, words)
    if all(target.name for target in found):
        if every or selector:
            raise typer.BadParameter("names need neither --all nor --selector", param_hint="NAME")
        return [(target, _place(client, target)) for target in found]
    if not every and not selector:
        raise typer.BadParameter("a NAME is needed, or --all, or --selector", param_hint="NAME")
    chosen: list[tuple[Target, str]] = []
    for target in found:
        place = _place(client, target)
        objects = await client.list(target.known.resource, Selection(place, labels=selector))
        chosen += [(resources.Target(target.known, each["metadata"]["name"]), place) for each in objects]
    return chosen


async def _described(client: KubernetesClient, manifests: list[Manifest], namespace: str) -> list[tuple[Target, str]]:
    from modelwright.cli import resources
    from modelwright.cli.apply import place_of

    chosen = []
    for manifest in manifests:
        known = await resources.find_kind(client, manifest.api_version, manifest.kind)
        place = place_of(client, known, manifest, namespace)
        chosen.append((resources.Target(known, manifest.name), place))
    return chosen


def _place(client: KubernetesClient, target: Target) -> str:
    return client.namespace if target.known.resource.namespaced else ""


async def _delete(
    client: KubernetesClient, target: Target, place: str, cascade: Cascade, ignore_not_found: bool
) -> str | None:
    """The uid of what was deleted, "" for what was not there and need not be, None where it failed."""
    from modelwright.cli.context import explain
    from modelwright.cli.output import report, say
    from modelwright.ports.errors import ModelwrightError, NotFound, Unavailable

    try:
        uid = (await client.get(target.known.resource, place, target.name))["metadata"]["uid"]
        await client.delete(target.known.resource, place, target.name, uid=uid, propagation=PROPAGATION[cascade])
    except Unavailable:
        raise
    except ModelwrightError as error:
        if isinstance(error, NotFound) and ignore_not_found:
            return ""
        report(explain(error))
        return None
    say(f"{target.label} deleted")
    return str(uid)
