"""`modelwright image`: build, inspect, pull, verify and prune model images, without a control plane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modelwright.cli.image_progress import Shown, readable
from modelwright.ports.errors import Invalid, ModelwrightError

if TYPE_CHECKING:
    from modelwright.oci.client import RegistryRepository
    from modelwright.oci.reference import Reference

app = typer.Typer(help="Build, inspect, pull, verify and prune model images.", no_args_is_help=True)

RefArgument = Annotated[str, typer.Argument(metavar="REF", help="HOST/REPOSITORY[:TAG][@DIGEST]")]
PlainOption = Annotated[
    bool, typer.Option("--plain-http", help="Speak http without TLS (this machine's registries need no such option).")
]
CAOption = Annotated[Path | None, typer.Option("--ca-file", help="CA certificate (PEM) of the registry.")]
RegistryOption = Annotated[
    str | None, typer.Option("--registry", envvar="MODELWRIGHT_REGISTRY", help="Registry of a REF that names none.")
]
TokenHostOption = Annotated[
    list[str] | None, typer.Option("--token-host", help="Token service of another domain to trust with credentials.")
]


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder (or single file) with the model.")],
    ref: RefArgument,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    registry: RegistryOption = None,
    token_host: TokenHostOption = None,
    mount: Annotated[
        list[str] | None, typer.Option("--mount-from", help="Repository of the same registry that may have layers.")
    ] = None,
) -> None:
    """Pack a model folder into an image and push it; the digest is printed last."""
    with _failing_clearly(), _repository(ref, registry, plain_http, ca_file, token_host) as (reference, images):
        from modelwright.oci import push

        if reference.digest:
            raise Invalid("a digest is what a build gives, not what it takes: give a tag", reason="InvalidReference")
        tag = reference.tag or "latest"
        with Shown() as shown:
            pushed = push.push_folder(folder, images, (tag,), sources=tuple(mount or ()), watcher=shown)
        _say(
            f"{images.name}:{tag}: {pushed.uploaded_layers} of {pushed.layers} layers uploaded "
            f"({readable(pushed.uploaded_bytes)} of {readable(pushed.size)})"
        )
        typer.echo(pushed.digest)


def _say(text: str) -> None:
    """To stderr: stdout is for results that scripts read."""
    typer.echo(text, err=True)


@contextmanager
def _failing_clearly() -> Iterator[None]:
    try:
        yield
    except ModelwrightError as error:
        typer.echo(f"error: {error.message} ({error.reason})", err=True)
        raise typer.Exit(1) from None


@contextmanager
def _repository(
    ref: str, registry: str | None, plain_http: bool, ca_file: Path | None, token_hosts: list[str] | None
) -> Iterator[tuple[Reference, RegistryRepository]]:
    from modelwright.oci import client, reference
    from modelwright.oci.session import Options

    parsed = reference.parse(ref, default_host=registry)
    options = Options(plain_http=plain_http or None, ca_file=ca_file, token_hosts=tuple(token_hosts or ()))
    with client.connect(parsed, options) as images:
        yield parsed, images
