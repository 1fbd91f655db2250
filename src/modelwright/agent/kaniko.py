"""What is done before and after Kaniko's executor: it knows neither the rules of tags nor lineage, nor how to report.

`prepare` leaves a Dockerfile in the shared folder, and beside it what the folder holds; Kaniko leaves the digest.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from modelwright.agent.build import BASE_HOST, attach_statement, metrics_of
from modelwright.agent.dockerfile import IGNORED, dockerfile
from modelwright.agent.job_build import model_folder, say_pushed
from modelwright.agent.printing import Printer
from modelwright.agent.registries import Registries, registries_of
from modelwright.lineage import statement
from modelwright.oci import digests, folder, layers, manifests, media
from modelwright.oci.reference import Reference, parse
from modelwright.ports.errors import AlreadyExists, Invalid, Mismatch, NotFound, Unavailable
from modelwright.ports.images import Digest, Images
from modelwright.ports.job import BuildTask
from modelwright.ports.workloads import BuildResult

UID_LABEL = "modelwright.dev/model-version-uid"
"""By this label of an image, the retry of a build knows what it has pushed itself."""

DOCKERFILE = "Dockerfile"
DIGEST_FILE = "digest"
PREPARED_FILE = "prepared.json"


class Prepared(msgspec.Struct, frozen=True, rename="camel"):
    """What the folder holds, counted as the native builder does."""

    files: int
    size_bytes: int
    metrics: dict[str, float] = {}
    metrics_ignored: str = ""


def prepare(task: BuildTask, shared: Path, printer: Printer) -> None:
    """Check everything that Kaniko does not, and write its Dockerfile.

    Raises AlreadyExists (ImageTagTaken) for a tag that holds something else, NotFound (ImageNotFound) for a base image
    that is not there, and what scanning a folder and asking a registry raise.
    """
    registries, source = registries_of(task), model_folder(task)
    destination = _destination(task)
    with registries.open(destination.name) as images:
        _refuse_taken_tag(images, destination.target, _uid(task), printer)
    base = _base(task, registries)
    found = folder.scan(source)
    metrics, note = metrics_of(source)
    size = sum(plan.size for plan in layers.plan(found))
    prepared = Prepared(len(found.files), size, metrics, note)
    (shared / PREPARED_FILE).write_bytes(msgspec.json.encode(prepared))
    (shared / f"{DOCKERFILE}.dockerignore").write_text(IGNORED)
    (shared / DOCKERFILE).write_text(dockerfile(base, {UID_LABEL: _uid(task)} if _uid(task) else {}))
    printer.say(f"prepared a Kaniko build of {destination}: {prepared.files} files, {size} bytes")


def finish(task: BuildTask, shared: Path, printer: Printer) -> BuildResult:
    """Check that the registry has what Kaniko says it pushed, and attach where it comes from.

    Raises Invalid (KanikoResultMissing), Mismatch (DigestMismatch), Unavailable (BlobLost, ProvenanceNotAttached).
    """
    prepared, digest = _prepared(shared), _pushed_digest(shared)
    destination = _destination(task)
    with registries_of(task).open(destination.name) as images:
        _check_pushed(images, destination.target, digest)
        provenance = task.action.provenance
        refused = ""
        if provenance is not None:
            told = statement.statement(
                provenance, images.name, digest, prepared.metrics, builder=statement.KANIKO_BUILDER
            )
            refused = attach_statement(images, digest, told)
    result = BuildResult(
        digest=digest,
        tag=destination.target,
        resolved=f"{destination.name}@{digest}",
        size_bytes=prepared.size_bytes,
        files=prepared.files,
        metrics=prepared.metrics,
        metrics_ignored=prepared.metrics_ignored,
        provenance_refused=refused,
    )
    for note in filter(None, (prepared.metrics_ignored, refused)):
        printer.say(f"note: {note}")
    say_pushed(printer, result)
    return result


def _destination(task: BuildTask) -> Reference:
    destination = parse(task.destination)
    if destination.tag is None or destination.digest is not None:
        raise Invalid(f"{task.destination!r} is no HOST/REPOSITORY:TAG to push to", reason="InvalidReference")
    return destination


def _uid(task: BuildTask) -> str:
    return task.owner_uid or (task.action.provenance.uid if task.action.provenance else "")


def _base(task: BuildTask, registries: Registries) -> Reference | None:
    """The base image; that it is there is said here better than by Kaniko."""
    if not task.action.base_image:
        return None
    reference = parse(task.action.base_image, default_host=BASE_HOST)
    with registries.open(reference.name) as images:
        if images.resolve(reference.target) is None:
            raise NotFound(f"there is no base image {reference}: check its spelling", reason="ImageNotFound")
    return reference


def _refuse_taken_tag(images: Images, tag: str, uid: str, printer: Printer) -> None:
    found = images.resolve(tag)
    if found is None:
        return
    if not uid or _label(images, found.digest) != uid:
        raise AlreadyExists(
            f"{images.name}:{tag} holds other content ({found.digest}), and Kaniko would overwrite it: tags are never "
            "overwritten, choose another imageTag",
            reason="ImageTagTaken",
        )
    printer.say(f"{images.name}:{tag} is this build's own, from an earlier attempt")


def _label(images: Images, digest: Digest) -> str:
    """The UID that an image is labelled with; empty if it is not an image of one platform, as Kaniko makes them."""
    content = manifests.decode(images.read_manifest(digest))
    if not isinstance(content, manifests.ImageManifest) or content.config.size > media.MAX_MANIFEST_BYTES:
        return ""
    with images.read_blob(content.config.digest) as chunks:
        data = b"".join(digests.verified(chunks, content.config.digest, content.config.size, what="the config"))
    labels = (manifests.decode_config(data).config or {}).get("Labels")
    return str(labels.get(UID_LABEL, "")) if isinstance(labels, dict) else ""


def _prepared(shared: Path) -> Prepared:
    try:
        return msgspec.json.decode((shared / PREPARED_FILE).read_bytes(), type=Prepared)
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        raise _missing(shared / PREPARED_FILE) from error


def _pushed_digest(shared: Path) -> Digest:
    try:
        with (shared / DIGEST_FILE).open("rb") as file:
            return digests.parse(file.read(100).decode().strip())
    except (OSError, ValueError, Invalid) as error:
        raise _missing(shared / DIGEST_FILE) from error


def _missing(file: Path) -> Invalid:
    return Invalid(
        f"{file} is not what the step before this one leaves: the Kaniko image must be an executor that knows "
        "--digest-file, and the operator and its agent image of the same version",
        reason="KanikoResultMissing",
    )


def _check_pushed(images: Images, tag: str, digest: Digest) -> None:
    found = images.resolve(tag)
    if found is None:
        raise Unavailable(f"{images.name} does not have the tag {tag} that Kaniko pushed: try again", reason="BlobLost")
    if found.digest != digest:
        raise Mismatch(
            f"{images.name}:{tag} is {found.digest}, and Kaniko pushed {digest}: somebody else writes that tag",
            reason="DigestMismatch",
        )
