"""Putting a model into a folder of this machine: downloaded or pulled, verified, whole or not at all.

    FOLDER/model/...        its content
    FOLDER/manifest.json    what that was, for verifying it again before it is served after a restart

Nothing is flushed to the disk: after a power loss a folder that is not whole is found by its manifest and made anew.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelwright.agent.build import LocalRegistry
from modelwright.agent.manifest import FolderManifest, describe, verify
from modelwright.ports.errors import Mismatch
from modelwright.ports.workloads import Download, ModelSource

Report = Callable[[int, int], None]
"""Called with bytes done and bytes in all (0: not known)."""


def obtain(source: ModelSource, folder: Path, registry: LocalRegistry, *, secret: Path | None, report: Report) -> Path:
    """The folder of the verified model, `folder/model`; what is there already is verified and used.

    `secret` is a folder with the keys of the source's secret as files.
    Raises what downloading and pulling raise: Mismatch, Rejected, Forbidden, NotFound, Unavailable.
    """
    if not _is_whole(folder, report):
        shutil.rmtree(folder, ignore_errors=True)
        _bring(source, folder, registry, secret, report)
    return folder / "model"


def _is_whole(folder: Path, report: Report) -> bool:
    try:
        manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=FolderManifest)
        verify(folder / "model", manifest, _adding_up(manifest.size, report))
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


def _bring(source: ModelSource, folder: Path, registry: LocalRegistry, secret: Path | None, report: Report) -> None:
    """Into a temporary folder, then to its place in one step."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="model-") as scratch:
        fresh = Path(scratch) / "fresh"
        fresh.mkdir(mode=0o700)
        if isinstance(source, Download):
            _download(source, fresh / "model", secret, report)
        else:
            _pull(source.image, fresh / "model", registry, secret, report)
        (fresh / "manifest.json").write_bytes(msgspec.json.encode(describe(fresh / "model")))
        fresh.replace(folder)


def _download(source: Download, destination: Path, secret: Path | None, report: Report) -> None:
    from modelwright.agent.fetch import fetch

    fetch(source.url, destination, sha256sum=source.sha256sum, secret=secret, report=report)


def _pull(image: str, destination: Path, registry: LocalRegistry, secret: Path | None, report: Report) -> None:
    from modelwright.agent.build import open_repository
    from modelwright.oci import pull
    from modelwright.oci.reference import parse

    reference = parse(image)
    credentials = secret / ".dockerconfigjson" if secret is not None else None
    with open_repository(reference.name, registry, credentials) as images:
        pull.pull(images, reference.target, destination, report=report)
