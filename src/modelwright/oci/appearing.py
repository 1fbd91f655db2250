"""A folder that appears whole or not at all: made beside its place, then renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modelwright.oci.disk import disk_errors, state_of, sync_path
from modelwright.ports.errors import AlreadyExists

_PREFIX = ".modelwright-staging-"
_GRACE = 60.0
"""Seconds that a new folder has until it must be locked."""


@contextmanager
def unpacked_into(final: Path, *, durable: bool = True) -> Iterator[Path]:
    """A new empty folder (0700) beside `final` that becomes `final` (0755) in one step if the body succeeds.

    On an error the folder is removed; what a killed process left is removed by the next one that unpacks there.
    `durable` flushes all files to the disk first, so that a power loss leaves all or nothing.
    Raises AlreadyExists (DestinationExists) if something other than an empty folder is there at the end.
    """
    with disk_errors():
        final.parent.mkdir(parents=True, exist_ok=True)
        _sweep(final.parent)
        staging = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=final.parent))
    try:
        with _locked(staging), disk_errors():
            yield staging
            if durable:
                sync_folder(staging)
            staging.chmod(0o755)
            _publish(staging, final)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    if durable:
        sync_path(final.parent)


def sync_folder(folder: Path) -> None:
    """Flush all files and folders below `folder` to the disk."""
    for place, _, files in os.walk(folder):
        for name in files:
            sync_path(Path(place, name))
        sync_path(Path(place))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Locked as long as this process lives and works in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        state = state_of(folder)
        if state is None or state.st_mtime > time.time() - _GRACE:
            continue
        try:
            with _locked(folder):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # somebody works in it, or it is gone
            continue


def _publish(staging: Path, final: Path) -> None:
    try:
        staging.rename(final)
    except OSError as error:
        if os.path.lexists(final):
            raise AlreadyExists(f"{final} exists already", reason="DestinationExists") from error
        raise
