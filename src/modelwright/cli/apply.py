"""`modelwright apply`: make the control plane have what manifests say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, failing_clearly, run

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.cli.manifests import Manifest
    from modelwright.cli.resources import Known

STRICT = {"fieldValidation": "Strict"}

FilesOption = Annotated[
    list[Path],
    typer.Option(
        "--filename", "-f", metavar="FILE|DIR|-", help="YAML or JSON; a folder means the files in it; repeatable."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("apply")(apply)


def apply(
    files: FilesOption,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Let the server check it, and change nothing.")
    ] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Create what manifests describe, or change it to be so.

    As with kubectl, what you take out of a manifest is taken out of the object, and what others have set stays.

    Example: modelwright apply -f model.yaml
    """
    from modelwright.cli.manifests import read_manifests

    with failing_clearly():  # not in the loop, which Ctrl-C could not end while standard input says nothing
        manifests = read_manifests(files)

    async def verb() -> int:
        async with Connection(kubeconfig, context, namespace).client() as client:
            results = [await _one(client, manifest, namespace or "", dry_run) for manifest in manifests]
        return 0 if all(results) else 1

    run(verb())


async def _one(client: KubernetesClient, manifest: Manifest, namespace: str, dry_run: bool) -> bool:
    """Apply one object and say what came of it; one that is refused does not keep the others back."""
    from modelwright.cli.context import explain
    from modelwright.cli.output import report, say
    from modelwright.cli.resources import find_kind
    from modelwright.ports.errors import ModelwrightError, Unavailable

    try:
        known = await find_kind(client, manifest.api_version, manifest.kind)
        result = await _applied(client, known, manifest, place_of(client, known, manifest, namespace), dry_run)
    except Unavailable:
        raise  # the next one would fare no better
    except ModelwrightError as error:
        report(f"{manifest.source}: {explain(error, f'{manifest.kind} {manifest.name}')}")
        return False
    say(f"{known.label}/{manifest.name} {result}{' (dry run)' if dry_run else ''}")
    return True


async def _applied(client: KubernetesClient, known: Known, manifest: Manifest, namespace: str, dry_run: bool) -> str:
    from modelwright.cli.merge import annotated
    from modelwright.ports.errors import AlreadyExists, NotFound

    body = manifest.body
    if namespace:
        body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    body = annotated(body)
    try:
        live = await client.get(known.resource, namespace, manifest.name)
    except NotFound:
        try:
            await client.create(known.resource, namespace, body, dry_run=dry_run, params=STRICT)
            return "created"
        except AlreadyExists:  # made by somebody else just now
            live = await client.get(known.resource, namespace, manifest.name)
    return await _changed(client, known, namespace, live, body, dry_run)


async def _changed(
    client: KubernetesClient, known: Known, namespace: str, live: dict[str, Any], body: dict[str, Any], dry_run: bool
) -> str:
    from modelwright.cli.merge import last_applied, three_way

    patch = three_way(last_applied(live), body, live)
    if not patch:
        return "unchanged"
    name = body["metadata"]["name"]
    changed = await client.merge_patch(known.resource, namespace, name, patch, dry_run=dry_run, params=STRICT)
    same = changed["metadata"].get("resourceVersion") == live["metadata"].get("resourceVersion")
    return "unchanged" if same and not dry_run else "configured"


def place_of(client: KubernetesClient, known: Known, manifest: Manifest, wanted: str) -> str:
    """The namespace that an object goes to, "" for one that has none. Raises Invalid."""
    from modelwright.ports.errors import Invalid

    if not known.resource.namespaced:
        return ""
    if wanted and manifest.namespace not in ("", wanted):
        message = f"its manifest says namespace {manifest.namespace!r}, --namespace says {wanted!r}"
        raise Invalid(message, reason="NamespaceMismatch")
    return manifest.namespace or client.namespace
