"""`modelwright lineage`: the way from data to answer, in both directions."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from modelwright.cli.context import Connection, ContextOption, KubeconfigOption, NamespaceOption, failing_clearly, run
from modelwright.cli.registry_options import CAOption, PlainOption, RegistryOptions, TokenHostOption

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.api.kind import Kind
    from modelwright.lineage.nodes import Trace
    from modelwright.lineage.records import Records

Format = Literal["tree", "json", "mermaid", "dot"]
TREE_DEPTH = 10


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("lineage")(lineage)


def lineage(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="NAME, KIND/NAME (mo, mv, tm, infm, jis, dataset, file), or an image HOST/REPO:TAG, HOST/REPO@DIGEST",
            show_default=False,
        ),
    ],
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = "tree",
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            min=0,
            metavar="STEPS",
            help=f"How far to go, 0: as far as it goes; by default {TREE_DEPTH} for the tree, else 0.",
            show_default=False,
        ),
    ] = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    token_host: TokenHostOption = None,
) -> None:
    """Show what a thing was made from, and what is made of it: data sets, trainings, versions, services.

    For an image, the statements that are attached to it are read from the registry: no control plane is asked.

    Example: modelwright lineage mv/digits-v1
    """
    steps = (TREE_DEPTH if output == "tree" else 0) if depth is None else depth
    if _is_image(what):
        from modelwright.cli import lineage_registry

        options = RegistryOptions(plain_http, ca_file, tuple(token_host or ()))
        with failing_clearly():
            print_trace(lineage_registry.trace(what, options, steps), output)
        return

    async def verb() -> None:
        async with Connection(kubeconfig, context, namespace).client() as client:
            print_trace(await trace(client, what, steps), output)

    run(verb())


async def trace(client: KubernetesClient, word: str, depth: int = 0) -> Trace:
    """The trace of what a word names. Raises NotFound, Unavailable, and a usage error for an unclear word."""
    from modelwright.ports.errors import Invalid

    try:
        with _collector_off():
            return await _trace(client, word, depth)
    except Invalid as error:
        raise typer.BadParameter(error.message, param_hint="NAME") from None


async def _trace(client: KubernetesClient, word: str, depth: int) -> Trace:
    """The graph is gone when this returns, before the garbage collector can look at it."""
    from modelwright.lineage import lookup
    from modelwright.lineage.graph import Graph

    graph = Graph(await fetch(client))
    return graph.trace(lookup.choose(graph, word), depth)


async def fetch(client: KubernetesClient) -> Records:
    """All that the namespace holds, a list for each kind. Raises Unavailable, Forbidden.

    Two connections: while one list is decoded, the server is busy with the other. More would only be more handshakes.
    """
    import asyncio

    from modelwright.api.kinds import KINDS, MODEL_VERSION
    from modelwright.lineage.records import Records

    others = tuple(kind for kind in KINDS if kind is not MODEL_VERSION)
    # What a gathered coroutine returns is kept in a circle of futures: so they return nothing.
    found: dict[str, Any] = {}
    await asyncio.gather(_list(client, (MODEL_VERSION,), found), _list(client, others, found))
    return Records(**found)


async def _list(client: KubernetesClient, kinds: tuple[Kind, ...], found: dict[str, Any]) -> None:
    from modelwright.adapters.kubernetes.resource import of_kind
    from modelwright.lineage.records import TYPES, items

    for kind in kinds:
        response = await client.raw("GET", of_kind(kind).path(client.namespace))
        found[TYPES[kind.kind][0]] = items(kind.kind, response.body)


def print_trace(trace: Trace, output: Format) -> None:
    """To stdout, for people or programs."""
    from modelwright.cli.output import print_json
    from modelwright.lineage import drawing

    if output == "json":
        print_json(trace)
    elif output == "tree":
        from modelwright.cli.lineage_tree import print_tree

        print_tree(trace)
    else:
        print({"mermaid": drawing.mermaid, "dot": drawing.dot}[output](trace), end="")


@contextmanager
def _collector_off() -> Iterator[None]:
    """Without the cyclic garbage collector, which makes a graph of 10,000 versions take four times as long."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _is_image(word: str) -> bool:
    """Whether it names an image rather than KIND/NAME: a path with a tag or digest, and no kind before it."""
    from modelwright.lineage.lookup import kind_of

    head, slash, rest = word.partition("/")
    return bool(slash) and not kind_of(head) and ("@" in rest or ":" in rest or "." in head or ":" in head)
