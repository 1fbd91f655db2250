"""`modelwright diff`: how two versions of a model differ."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modelwright.cli.context import (
    FAILED,
    Connection,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    explain,
    failing_clearly,
    run,
)
from modelwright.cli.registry_options import CAOption, PlainOption, RegistryOptions, TokenHostOption

if TYPE_CHECKING:
    from modelwright.adapters.kubernetes.client import KubernetesClient
    from modelwright.api.model_version import ModelVersion
    from modelwright.lineage.difference import Difference, Files
    from modelwright.oci import files as oci_files

Format = Literal["text", "json"]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("diff")(diff)


def diff(
    before: Annotated[
        str, typer.Argument(metavar="VERSION", help="A ModelVersion: NAME, or mv/NAME.", show_default=False)
    ],
    after: Annotated[str, typer.Argument(metavar="VERSION", help="The one to compare it with.", show_default=False)],
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = "text",
    digests: Annotated[
        bool,
        typer.Option("--digests", metavar="", help="Read large files that changed too, for the SHA-256 of each."),
    ] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    token_host: TokenHostOption = None,
) -> None:
    """Compare two versions of a model: files, metrics, parameters, data sets, what they were made from.

    Files are compared in the registry; layers that both images have are not read.

    Example: modelwright diff digits-v1 digits-v2
    """
    from modelwright.lineage.difference import difference

    found: list[ModelVersion] = []

    async def verb() -> None:
        async with Connection(kubeconfig, context, namespace).client() as client:
            found.extend(await _versions(client, before, after))

    run(verb())
    told = difference(*found)
    with failing_clearly():
        told, code = _with_files(told, RegistryOptions(plain_http, ca_file, tuple(token_host or ())), contents=digests)
        print_difference(told, output)
    if code:
        raise typer.Exit(code)


async def _versions(client: KubernetesClient, *words: str) -> list[ModelVersion]:
    import asyncio

    from modelwright.adapters.kubernetes.resource import of_kind
    from modelwright.api.kinds import MODEL_VERSION, decode
    from modelwright.api.model_version import ModelVersion

    resource = of_kind(MODEL_VERSION)
    names = [_name_of(word) for word in words]
    bodies = await asyncio.gather(*(client.get_bytes(resource, client.namespace, name) for name in names))
    return [decode(ModelVersion, body) for body in bodies]


def _name_of(word: str) -> str:
    """The name in NAME or mv/NAME. Raises a usage error for another kind."""
    from modelwright.lineage.lookup import kind_of

    kind, slash, name = word.rpartition("/")
    if slash and kind_of(kind) != "ModelVersion":
        raise typer.BadParameter(f"{word!r} is no ModelVersion: write NAME or mv/NAME", param_hint="VERSION")
    return name


def _with_files(told: Difference, options: RegistryOptions, *, contents: bool) -> tuple[Difference, int]:
    """The difference with that of the files, and the exit code: what else is known is told in any case."""
    import msgspec

    from modelwright.cli.output import report
    from modelwright.ports.errors import ModelwrightError

    waiting = [version.name for version in (told.before, told.after) if not version.resolved_image]
    if waiting:
        why = f"{' and '.join(dict.fromkeys(waiting))} has no image yet"
        return msgspec.structs.replace(told, files_unknown=why), 0
    try:
        files = _files(told.before.resolved_image, told.after.resolved_image, options, contents=contents)
    except ModelwrightError as error:
        report(f"the files cannot be compared: {explain(error)}")
        return msgspec.structs.replace(told, files_unknown=error.message), FAILED
    return msgspec.structs.replace(told, files=files), 0


def _files(before: str, after: str, options: RegistryOptions, *, contents: bool) -> Files:
    """From the registries that the images are in. Raises what reading them raises."""
    from modelwright.oci.client import RegistryRepository
    from modelwright.oci.files import Side, compare
    from modelwright.oci.reference import parse

    with ExitStack() as stack:
        references = [parse(before), parse(after)]
        sessions = {host: stack.enter_context(options.session(host)) for host in {each.host for each in references}}
        sides = [Side(RegistryRepository(sessions[each.host], each.repository), each.target) for each in references]
        return _told(compare(*sides, contents=contents))


def _told(found: oci_files.Comparison) -> Files:
    from modelwright.lineage.difference import ChangedFile, File, Files, Layers

    def file(one: oci_files.File) -> File:
        return File(path=one.path, size_bytes=one.size, digest=one.digest or "", layer="" if one.digest else one.layer)

    layers = (found.shared, found.only_before, found.only_after)
    counted = (value for part in layers for value in (len(part), sum(layer.size for layer in part)))
    return Files(
        added=tuple(map(file, found.added)),
        removed=tuple(map(file, found.removed)),
        changed=tuple(ChangedFile(path=a.path, before=file(a), after=file(b)) for a, b in found.changed),
        layers=Layers(*counted),
    )


def print_difference(told: Difference, output: Format) -> None:
    """To stdout, for people or programs."""
    if output == "json":
        from modelwright.cli.output import print_json

        print_json(told)
    else:
        from modelwright.cli.diff_text import print_text

        print_text(told)
