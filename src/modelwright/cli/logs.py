"""`modelwright logs`: what runs for an object, in its own words."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, run

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.cli.resources import Target

FIRST_FAULT = 400


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("logs")(logs)


def logs(
    words: Annotated[
        list[str], typer.Argument(metavar="NAME", help="An InferenceModel's NAME, or KIND/NAME.", show_default=False)
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", metavar="", help="Go on until it ends, or Ctrl-C.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Print what the processes of an object have logged.

    Example: modelwright logs -f digits
    """
    named = words if len(words) > 1 or "/" in words[0] else [f"inferencemodel/{words[0]}"]

    async def verb() -> None:
        from modelwright.cli import resources

        async with Connection(kubeconfig, context, namespace).client() as client:
            for target in await resources.named(client, named):
                await print_log_of(client, target, follow=follow)

    run(verb())


async def print_log_of(client: KubernetesClient, target: Target, *, follow: bool) -> None:
    """Copy an object's log to stdout. Raises NotFound, which on a cluster says where its log is."""
    from modelwright.ports.errors import NotFound

    resource = target.known.resource
    try:
        await print_log(client, resource.path(client.namespace, target.name, "log"), follow=follow)
    except NotFound as refusal:
        found = await client.get(resource, client.namespace, target.name)
        if f'"{target.name}" not found' not in refusal.message:
            raise
        # It is there, and a kube-apiserver knows no logs of our kinds: it says so of the object.
        where = f"-n {client.namespace} -l modelwright.dev/owner-uid={found['metadata']['uid']}"
        raise NotFound(f"a cluster has its log with the Pods, while there are any: kubectl logs {where}") from None


async def print_log(client: KubernetesClient, path: str, *, follow: bool) -> None:
    """Copy the log to stdout as it comes. Raises what the server's refusal means."""
    import codecs

    from modelwright.cli.output import safe

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with client.stream(path, {"follow": follow}) as answer:
        if answer.status >= FIRST_FAULT:
            await client.raw("GET", path)  # refuses again, and says why
        async for chunk in answer.chunks:
            sys.stdout.write(safe(decoder.decode(chunk), lines=True))
            sys.stdout.flush()
