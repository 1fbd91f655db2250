"""`modelwright image`: build, inspect, pull, verify and prune model images, without a control plane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from modelwright.cli.image_progress import Shown
from modelwright.cli.output import note, report, say
from modelwright.cli.units import counted, readable
from modelwright.ports.errors import Invalid, ModelwrightError

if TYPE_CHECKING:
    from modelwright.oci.base import Base
    from modelwright.oci.client import RegistryRepository
    from modelwright.oci.credentials import Credentials
    from modelwright.oci.reference import Reference

app = typer.Typer(help="Build, inspect, pull, verify and prune model images.", no_args_is_help=True)

RefArgument = Annotated[str, typer.Argument(metavar="REF", help=r"HOST/REPOSITORY\[:TAG]\[@DIGEST]")]
PlainOption = Annotated[
    bool,
    typer.Option(
        "--plain-http", metavar="", help="Speak http without TLS; registries on this machine need no such option."
    ),
]
CAOption = Annotated[Path | None, typer.Option("--ca-file", metavar="FILE", help="CA certificate (PEM) to trust.")]
RegistryOption = Annotated[
    str | None,
    typer.Option("--registry", metavar="HOST", envvar="MODELWRIGHT_REGISTRY", help="Registry of a REF without a host."),
]
TokenHostOption = Annotated[
    list[str] | None,
    typer.Option("--token-host", metavar="HOST", help="Token service under another domain to trust with credentials."),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="Log in with the token in this file, as any user: `token` in the data directory of `modelwright up`.",
    ),
]
JSONOption = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")]

DAY = 24 * 3600


class Access(NamedTuple):
    """What all verbs are told about registries."""

    registry: str | None
    plain_http: bool
    ca_file: Path | None
    token_hosts: list[str] | None
    token_file: Path | None = None


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder (or single file) with the model.")],
    ref: RefArgument,
    base: Annotated[str | None, typer.Option("--base", metavar="REF", help="Image to put the model on top of.")] = None,
    mount_from: Annotated[
        list[str] | None,
        typer.Option("--mount-from", metavar="REPO", help="Repository of the same registry that may have layers."),
    ] = None,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    registry: RegistryOption = None,
    token_host: TokenHostOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Pack a model folder into an image and push it; the digest is printed last.

    The same files give the same digest on every machine. A tag that holds other content is never overwritten.

    Example: modelwright image build ./resnet registry.example.com/modelhub/resnet:v1
    """
    access = Access(registry, plain_http, ca_file, token_host, token_file)
    with _failing_clearly(), ExitStack() as stack:
        from modelwright.oci import push

        _parsed(ref, access)  # said before anything is read
        shown = stack.enter_context(Shown())
        hashes = stack.enter_context(push.hashing(folder, shown))
        reference, images = stack.enter_context(_repository(ref, access))
        if reference.digest:
            raise Invalid("a digest is what a build gives, not what it takes: give a tag", reason="InvalidReference")
        below = _base(stack, base, access)
        tag = reference.tag or "latest"
        pushed = hashes.push(images, (tag,), base=below, sources=tuple(mount_from or ()))
        shown.stop()
        note(
            f"{images.name}:{tag}: {pushed.uploaded_layers} of {counted(pushed.layers, 'layer')} uploaded "
            f"({readable(pushed.uploaded_bytes)} of {readable(pushed.size)})"
        )
        say(pushed.digest)


@app.command()
def inspect(
    ref: RefArgument,
    as_json: JSONOption = False,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    registry: RegistryOption = None,
    token_host: TokenHostOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Show what an image is made of: platforms, layers with the files that they are for, and what refers to it.

    Example: modelwright image inspect registry.example.com/modelhub/resnet:v1
    """
    with (
        _failing_clearly(),
        _repository(ref, Access(registry, plain_http, ca_file, token_host, token_file)) as (reference, images),
    ):
        from modelwright.cli.image_inspect import describe, print_description

        print_description(describe(images, reference.target), as_json=as_json)


@app.command()
def pull(
    ref: RefArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; it must not exist or be empty.")],
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    registry: RegistryOption = None,
    token_host: TokenHostOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Put the model of an image into a folder, verified; a broken pull is gone on with by the next one.

    Example: modelwright image pull registry.example.com/modelhub/resnet:v1 ./resnet
    """
    with (
        _failing_clearly(),
        _repository(ref, Access(registry, plain_http, ca_file, token_host, token_file)) as (reference, images),
    ):
        from modelwright.oci import pull as pulling

        with Shown() as shown:
            pulled = pulling.pull(images, reference.target, folder, report=shown.at)
        what = "1 file" if pulled.entries == 1 else f"{pulled.entries:,} files and folders"
        note(f"{what}, {readable(pulled.size)} in {folder}")
        say(pulled.digest)


@app.command()
def verify(
    ref: RefArgument,
    as_json: JSONOption = False,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    registry: RegistryOption = None,
    token_host: TokenHostOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Read every manifest and blob of an image and check digests, sizes and types; exit 1 if one is wrong.

    Example: modelwright image verify registry.example.com/modelhub/resnet:v1
    """
    with (
        _failing_clearly(),
        _repository(ref, Access(registry, plain_http, ca_file, token_host, token_file)) as (reference, images),
    ):
        import msgspec

        from modelwright.oci import verify as verifying

        parts = []
        for part in verifying.verify(images, reference.target):
            parts.append(part)
            if not as_json:
                say(f"{'wrong' if part.fault else 'ok':5}  {part.digest}  {readable(part.size):>10}  {part.media_type}")
                if part.fault:
                    say(f"       {part.fault}")
        if as_json:
            say(msgspec.json.encode(parts).decode())
        wrong = sum(1 for part in parts if part.fault)
        if wrong:
            raise Invalid(f"{wrong} of {len(parts)} parts of {ref} are wrong: do not use it", reason="ImageWrong")


@app.command()
def prune(
    repo: Annotated[str | None, typer.Argument(metavar="REPO", help="HOST/REPOSITORY to remove tags from.")] = None,
    keep: Annotated[
        list[str] | None, typer.Option("--keep", metavar="PATTERN", help="Tags to keep, such as 'v1.*'; repeatable.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="D", help="Free space in the registry of `up --data-dir D`.")
    ] = None,
    grace: Annotated[float, typer.Option(metavar="SECONDS", help="With --data-dir: spare what is younger.")] = DAY,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what would be removed, and remove nothing.")
    ] = False,
    plain_http: PlainOption = False,
    ca_file: CAOption = None,
    registry: RegistryOption = None,
    token_host: TokenHostOption = None,
    token_file: TokenFileOption = None,
) -> None:
    """Remove tags of a repository with the manifests that only they need, or free space in the embedded registry.

    Example: modelwright image prune registry.example.com/modelhub/resnet --keep 'v2*' --dry-run
    """
    if (repo is None) == (data_dir is None) or (repo is not None and not keep) or (data_dir is not None and dry_run):
        raise typer.BadParameter("give REPO with at least one --keep, or --data-dir alone", param_hint="REPO")
    with _failing_clearly():
        if repo is None:
            _collect(data_dir or Path(), grace)
        else:
            _prune(
                repo, tuple(keep or ()), Access(registry, plain_http, ca_file, token_host, token_file), dry_run=dry_run
            )


def _prune(repo: str, keep: tuple[str, ...], access: Access, *, dry_run: bool) -> None:
    from modelwright.oci import prune as pruning

    with _repository(repo, access) as (reference, images):
        if reference.tag or reference.digest:
            raise Invalid("prune takes a repository without tag or digest", reason="InvalidReference")
        planned = pruning.plan(images, keep)
        for tag in (*planned.tags, *planned.shared_tags):
            say(f"{images.name}:{tag}")
        remaining = () if dry_run else pruning.carry_out(images, planned)
        for tag in remaining:
            note(f"{tag} stays: the registry deletes no tag without its image, which a kept tag names too")
        done = "would be removed" if dry_run else "removed"
        tags = counted(len(planned.tags) + len(planned.shared_tags) - len(remaining), "tag")
        note(f"{tags} and {counted(len(planned.manifests), 'manifest')} {done} (the registry frees the space itself)")


def _collect(data_dir: Path, grace: float) -> None:
    from modelwright.oci.garbage import collect_garbage
    from modelwright.oci.storage import ImageStorage

    folder = data_dir / "registry"
    if not folder.is_dir():
        raise Invalid(f"{data_dir} is no data directory of `modelwright up`", reason="NoDataDirectory")
    freed = collect_garbage(ImageStorage(folder), grace)
    removed = f"{counted(freed.blobs, 'blob')} and {counted(freed.uploads, 'broken upload')} removed"
    say(f"{removed}, {readable(freed.bytes)} freed")


@contextmanager
def _failing_clearly() -> Iterator[None]:
    try:
        yield
    except ModelwrightError as error:
        report(f"{error.message} ({error.reason}){_advice(error)}")
        raise typer.Exit(1) from None
    except OSError as error:
        report(f"{error.filename or 'the system'}: {error.strerror or error}")
        raise typer.Exit(1) from None


def _advice(error: ModelwrightError) -> str:
    """What else helps, which those who raise the error cannot know."""
    if error.reason != "RegistryUnauthorized":
        return ""
    return "\n  the registry of `modelwright up` takes its own token: --token-file DATA_DIR/token"


@contextmanager
def _repository(ref: str, access: Access) -> Iterator[tuple[Reference, RegistryRepository]]:
    from modelwright.oci import client
    from modelwright.oci.session import Options

    parsed = _parsed(ref, access)
    options = Options(
        plain_http=access.plain_http or None,
        ca_file=access.ca_file,
        token_hosts=tuple(access.token_hosts or ()),
        credentials=_token(access.token_file),
    )
    with client.connect(parsed, options) as images:
        yield parsed, images


def _parsed(ref: str, access: Access) -> Reference:
    from modelwright.oci import reference

    return reference.parse(ref, default_host=access.registry)


def _token(file: Path | None) -> Credentials | None:
    """The login with the token in a file; None for whatever docker's config.json has."""
    from modelwright.oci.credentials import Credentials

    if file is None:
        return None
    return Credentials("modelwright", file.read_text(encoding="utf-8", errors="replace").strip())


def _base(stack: ExitStack, ref: str | None, access: Access) -> Base:
    from modelwright.oci import base

    if ref is None:
        return base.NO_BASE
    # It may be in another registry, which the token is not for.
    reference, images = stack.enter_context(_repository(ref, access._replace(token_file=None)))
    return base.load(images, reference.target)
