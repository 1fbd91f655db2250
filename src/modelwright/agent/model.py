"""Putting a model into a folder of this machine: downloaded or pulled, verified, whole or not at all.

    FOLDER/model/...        its content, which appears in one step
    FOLDER/manifest.json    what that was, for verifying it again before it is served after a restart
    FOLDER/.*               what has arrived of it, for going on after an interruption

Nothing is flushed to the disk: after a power loss a folder that is not whole is found by its manifest and made anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelwright.agent.build import LocalRegistry, open_repository
from modelwright.agent.manifest import FolderManifest, describe, verify
from modelwright.agent.policy import Policy
from modelwright.oci.disk import disk_errors, remove_tree
from modelwright.oci.recorder import Recorder
from modelwright.ports.errors import Mismatch
from modelwright.ports.worker import Obtained
from modelwright.ports.workloads import Download, ModelImage, ModelSource

Report = Callable[[int, int], None]
"""Called with bytes done and bytes in all (0: not known)."""
Bring = Callable[[Path, Recorder], str]
"""Puts a model into a folder that does not exist yet, and notes its files; returns the digest of what was downloaded,
if it was."""
_STAGING = ".modelwright-staging-*"
"""What `oci.appearing` unpacks into."""


def obtain(
    source: ModelSource,
    folder: Path,
    registry: LocalRegistry,
    *,
    forbidden: tuple[Path, ...] = (),
    readable: tuple[Path, ...] = (),
    secret: Path | None = None,
    report: Report | None = None,
) -> Obtained:
    """Put the verified model into `folder/model`; what is there already is verified and used.

    `secret` is a folder with the keys of the source's secret as files; nothing is read from `forbidden` folders but
    what is `readable` in them. The files are read-only, so that who is given them does not change them by accident.
    One process at a time may do this for one folder.
    Raises what downloading and pulling raise: Mismatch, Rejected, Forbidden, NotFound, Invalid, Unavailable.
    """
    report = report or _silent
    found = present(source, folder, report)
    if found is not None:
        return found

    def bring(model: Path, recorder: Recorder) -> str:
        if isinstance(source, ModelImage):
            return _pull(source.image, model, registry, secret, report, recorder)
        policy = Policy(forbidden_folders=forbidden, readable_folders=readable)
        return download(source, model, policy, secret, report, recorder)

    return place(folder, bring)


def present(source: ModelSource, folder: Path, report: Report) -> Obtained | None:
    """What is in `folder/model` already, verified; None if it is not what was put there."""
    known = _whole(folder / "model", folder / "manifest.json", report)
    if known is None or (isinstance(source, Download) and not _from(source, known)):
        return None
    _seal(folder / "model")
    return Obtained(known.digest)


def place(folder: Path, bring: Bring, *, mode: int = 0o700) -> Obtained:
    """Have `bring` put the model into `folder/model`, and write down what it is; `mode` is the folder's, if made.

    What a killed process was unpacking here is removed.
    """
    model, manifest = folder / "model", folder / "manifest.json"
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    manifest.unlink(missing_ok=True)
    for former in (model, *folder.glob(_STAGING)):
        remove_tree(former)
    with Recorder() as recorder:
        digest = bring(model, recorder)
    fresh = folder / ".manifest.json.new"
    with disk_errors():
        fresh.write_bytes(msgspec.json.encode(describe(model, digest, recorder.files)))
    _seal(model)
    fresh.replace(manifest)
    return Obtained(digest)


def _silent(_done: int, _total: int) -> None:
    pass


def _from(source: Download, known: FolderManifest) -> bool:
    return known.digest == f"sha256:{source.sha256sum.lower()}" if source.sha256sum else bool(known.digest)


def _whole(model: Path, manifest: Path, report: Report) -> FolderManifest | None:
    """What is there, if that is what was put there."""
    try:
        known = msgspec.json.decode(manifest.read_bytes(), type=FolderManifest)
        verify(model, known, _adding_up(known.size, report))
    except (OSError, msgspec.MsgspecError, Mismatch):
        return None
    return known


def _seal(model: Path) -> None:
    for place, _, files in os.walk(model):
        for name in files:
            Path(place, name).chmod(0o444)
        Path(place).chmod(0o555)


def _adding_up(total: int, report: Report) -> Callable[[int], None]:
    done = 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    return moved


def download(
    source: Download, destination: Path, policy: Policy, secret: Path | None, report: Report, recorder: Recorder
) -> str:
    """Download into the folder `destination`, which must not exist; the digest of what came. Raises as `fetch`."""
    from modelwright.agent.fetch import fetch

    fetched = fetch(
        source.url,
        destination,
        sha256sum=source.sha256sum,
        secret=secret,
        policy=policy,
        report=report,
        durable=False,
        recorder=recorder,
    )
    return fetched.digest


def _pull(
    image: str,
    destination: Path,
    registry: LocalRegistry,
    secret: Path | None,
    report: Report,
    recorder: Recorder,
) -> str:
    from modelwright.oci.pull import pull
    from modelwright.oci.reference import parse

    reference = parse(image, default_host=registry.host)
    credentials = secret / ".dockerconfigjson" if secret is not None else None
    with open_repository(reference.name, registry, credentials) as images:
        pull(images, reference.target, destination, report=report, durable=False, recorder=recorder)
    return ""
