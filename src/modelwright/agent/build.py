"""Packing a folder into an image and pushing it, on the machine that has the folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from modelwright.agent.metrics import read_metrics
from modelwright.lineage import statement
from modelwright.oci.base import NO_BASE, Base, load
from modelwright.oci.local import LocalRepository
from modelwright.oci.push import Pushed, push_folder
from modelwright.oci.reference import parse, split_name
from modelwright.oci.referrers import Artifact, attach
from modelwright.oci.storage import ImageStorage
from modelwright.ports.errors import Forbidden, ModelwrightError, Rejected, Retryable, Terminal, Unavailable
from modelwright.ports.images import Digest, Images
from modelwright.ports.worker import Built
from modelwright.ports.workloads import BuildImage, BuildResult, HostPath, Provenance

BASE_HOST = "docker.io"
"""Where a base image without a host is, such as `busybox`."""

Report = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

Opener = Callable[[str], AbstractContextManager[Images]]
"""Opens the repository that `[host/]repository` names."""


class LocalRegistry(msgspec.Struct, frozen=True):
    """The registry whose storage is a folder here: what is named by its host needs no network."""

    host: str
    storage: Path


def build(
    action: BuildImage,
    registry: LocalRegistry,
    *,
    forbidden: tuple[Path, ...],
    credentials: Path | None,
    report: Report,
) -> Built:
    """Pack and push. `forbidden` folders are never packed; `credentials` is a docker config.json.

    Raises Terminal (StorageNotSupported), Forbidden (StorageForbidden), and what `pack` raises.
    """
    source = _folder(action, forbidden)
    return pack(action, source, lambda name: open_repository(name, registry, credentials), report)


def pack(action: BuildImage, source: Path, opened: Opener, report: Report) -> Built:
    """Pack the folder `source` and push it as `action` says.

    A registry that refuses artifacts for good has the image all the same: the result says so. Raises Unavailable
    (ProvenanceNotAttached), and what scanning and pushing raise.
    """
    with contextlib.ExitStack() as stack:
        images = stack.enter_context(opened(action.repository))
        base = _base(action.base_image, stack, opened)
        pushed = push_folder(source, images, action.tags, base=base, watcher=_Watcher(report))
        name = images.name
        metrics, note = metrics_of(source)
        refused = _attach(action.provenance, images, pushed, metrics) if action.provenance is not None else ""
    result = _result(pushed, name, metrics)
    return Built(msgspec.structs.replace(result, metrics_ignored=note, provenance_refused=refused), note or refused)


def _result(pushed: Pushed, name: str, metrics: dict[str, float]) -> BuildResult:
    return BuildResult(
        digest=pushed.digest,
        tag=pushed.tag or "",
        resolved=f"{name}@{pushed.digest}",
        size_bytes=pushed.size,
        files=pushed.files,
        metrics=metrics,
    )


def _attach(provenance: Provenance, images: Images, pushed: Pushed, metrics: dict[str, float]) -> str:
    return attach_statement(images, pushed.digest, statement.statement(provenance, images.name, pushed.digest, metrics))


def attach_statement(images: Images, digest: Digest, document: bytes) -> str:
    """Say beside the image what it was made from; why the registry refuses that for good, empty if it does not.

    Nothing is lost if it fails for a while: the next attempt finds the image. Raises Unavailable
    (ProvenanceNotAttached).
    """
    annotations = {statement.PREDICATE_ANNOTATION: statement.PREDICATE_TYPE}
    try:
        attach(images, digest, Artifact(statement.MEDIA_TYPE, document, annotations))
    except ModelwrightError as error:
        told = f"{images.name}@{digest} is pushed, and its lineage could not be attached: {error.message}"
        if not isinstance(error, Retryable):
            return told
        raise Unavailable(told, reason="ProvenanceNotAttached", after=error.after) from error
    return ""


@contextlib.contextmanager
def open_repository(name: str, registry: LocalRegistry, credentials: Path | None) -> Iterator[Images]:
    """The repository that `[host/]repository` names: on this disk, or in a registry. Raises Invalid."""
    host, repository = split_name(name, default_host=registry.host)
    if host == registry.host:
        local = LocalRepository(ImageStorage(registry.storage), repository, host=host)
        with local.batch():
            yield local
        return
    from modelwright.oci.client import connect
    from modelwright.oci.credentials import find
    from modelwright.oci.reference import Reference
    from modelwright.oci.session import Options

    found = find(host, credentials) if credentials is not None else None
    with connect(Reference(host, repository), Options(credentials=found)) as remote:
        yield remote


def _folder(action: BuildImage, forbidden: tuple[Path, ...]) -> Path:
    if not isinstance(action.source, HostPath):
        kind = type(action.source).__name__
        raise Terminal(
            f"storage of the kind {kind} cannot be reached from this machine's builder: use localStorage",
            reason="StorageNotSupported",
        )
    source = Path(action.source.path)
    real = source.resolve()
    for folder in forbidden:
        kept = folder.resolve()
        if real.is_relative_to(kept) or kept.is_relative_to(real):
            raise Forbidden(
                f"{source} and the data directory {folder} lie in one another, and the data directory is never packed: "
                "keep the model in a folder of its own",
                reason="StorageForbidden",
            )
    return source


def _base(name: str, stack: contextlib.ExitStack, opened: Opener) -> Base:
    """The image to build upon; its repository stays open until the stack ends."""
    if not name:
        return NO_BASE
    reference = parse(name, default_host=BASE_HOST)
    return load(stack.enter_context(opened(reference.name)), reference.target)


def metrics_of(source: Path) -> tuple[dict[str, float], str]:
    """The numbers beside the model, and why they are ignored: a hostile or broken file never fails a build."""
    try:
        return read_metrics(source), ""
    except Rejected as error:
        return {}, error.message


class _Watcher:
    """Adds up what the threads of a push say."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0

    def planned(self, size: int, count: int) -> None:  # noqa: ARG002 - the Watcher protocol
        """The image has this many bytes."""
        self._total = size
        self._report(0, size)

    def hashed(self, count: int) -> None:
        """Hashing runs ahead of moving, and is not shown."""

    def moved(self, count: int) -> None:
        """So many more bytes are where they belong."""
        with self._lock:
            self._done += count
            done = self._done
        self._report(done, self._total)
