"""Putting a model into a folder of this machine: downloaded or pulled, verified, whole or not at all.

    FOLDER/model/...        its content, which appears in one step
    FOLDER/manifest.json    what that was, for verifying it again before it is served after a restart
    FOLDER/.*               what has arrived of it, for going on after an interruption

Nothing is flushed to the disk: after a power loss a folder that is not whole is found by its manifest and made anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelwright.agent.build import LocalRegistry, open_repository
from modelwright.agent.manifest import FolderManifest, describe, verify
from modelwright.ports.errors import Mismatch
from modelwright.ports.workloads import Download, ModelSource

Report = Callable[[int, int], None]
"""Called with bytes done and bytes in all (0: not known)."""


def obtain(
    source: ModelSource,
    folder: Path,
    registry: LocalRegistry,
    *,
    forbidden: tuple[Path, ...] = (),
    secret: Path | None = None,
    report: Report | None = None,
) -> Path:
    """The folder of the verified model, `folder/model`; what is there already is verified and used.

    `secret` is a folder with the keys of the source's secret as files; nothing is read from `forbidden` folders.
    One process at a time may do this for one folder.
    Raises what downloading and pulling raise: Mismatch, Rejected, Forbidden, NotFound, Invalid, Unavailable.
    """
    report = report or _silent
    model, manifest = folder / "model", folder / "manifest.json"
    if _is_whole(model, manifest, report):
        return model
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    manifest.unlink(missing_ok=True)
    shutil.rmtree(model, ignore_errors=True)
    if isinstance(source, Download):
        _download(source, model, forbidden, secret, report)
    else:
        _pull(source.image, model, registry, secret, report)
    fresh = folder / ".manifest.json.new"
    fresh.write_bytes(msgspec.json.encode(describe(model)))
    fresh.replace(manifest)
    return model


def _silent(_done: int, _total: int) -> None:
    pass


def _is_whole(model: Path, manifest: Path, report: Report) -> bool:
    try:
        known = msgspec.json.decode(manifest.read_bytes(), type=FolderManifest)
        verify(model, known, _adding_up(known.size, report))
    except (OSError, msgspec.MsgspecError, Mismatch):
        return False
    return True


def _adding_up(total: int, report: Report) -> Callable[[int], None]:
    done = 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    return moved


def _download(
    source: Download, destination: Path, forbidden: tuple[Path, ...], secret: Path | None, report: Report
) -> None:
    from modelwright.agent.fetch import fetch
    from modelwright.agent.policy import Policy

    policy = Policy(forbidden_folders=forbidden)
    fetch(
        source.url,
        destination,
        sha256sum=source.sha256sum,
        secret=secret,
        policy=policy,
        report=report,
        durable=False,
    )


def _pull(image: str, destination: Path, registry: LocalRegistry, secret: Path | None, report: Report) -> None:
    from modelwright.oci.pull import pull
    from modelwright.oci.reference import parse

    reference = parse(image, default_host=registry.host)
    credentials = secret / ".dockerconfigjson" if secret is not None else None
    with open_repository(reference.name, registry, credentials) as images:
        pull(images, reference.target, destination, report=report, durable=False)
