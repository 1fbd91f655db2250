"""Volumes of a command without containers: a folder with a link per mount, and the environment rewritten to match.

On a cluster `/kubedl-model` is a mount. Here it is `root/kubedl-model`, and an environment variable that names it,
or a folder above it, is given the real place. What a user writes literally into a command is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from modelwright.ports.errors import Invalid, Terminal
from modelwright.ports.workloads import Download, HostPath, ModelImage, ModelSource, Mount, Scratch


def check(mounts: Sequence[Mount]) -> None:
    """Raises Terminal for a volume that only a cluster has, Invalid for a path that is not absolute and plain."""
    for mount in mounts:
        if not isinstance(mount.volume, HostPath | Scratch | ModelImage | Download):
            kind = type(mount.volume).__name__
            raise Terminal(
                f"a volume of the kind {kind} needs a cluster: use a path on this machine", reason="StorageNotSupported"
            )
        path = PurePosixPath(mount.path)
        if not path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
            raise Invalid(f"the mount path {mount.path!r} is not an absolute path below the root without '..'")


def sources(mounts: Sequence[Mount]) -> list[ModelSource]:
    """The models that have to be here first."""
    return [mount.volume for mount in mounts if isinstance(mount.volume, ModelImage | Download)]


def lay_out(mounts: Sequence[Mount], root: Path, models: Mapping[ModelSource, Path]) -> None:
    """Make the folder with its links; one that is there from an attempt that was interrupted is completed.

    Raises Invalid for a host path that is not there.
    """
    for mount in mounts:
        place = _below(root, mount.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        target = _target(mount, models)
        if target is None:
            place.mkdir(exist_ok=True)
        elif not place.is_symlink():
            place.symlink_to(target)


def real_path(text: str, mounts: Sequence[Mount], root: Path, models: Mapping[ModelSource, Path]) -> str:
    """`text` if it is no path that the mounts know, else where that is on this machine."""
    path = PurePosixPath(text)
    if not path.is_absolute():
        return text
    for mount in mounts:
        place = PurePosixPath(mount.path)
        if path.is_relative_to(place):
            target = _target(mount, models) or _below(root, mount.path)
            return str(target / path.relative_to(place))
        if place.is_relative_to(path) and len(path.parts) > 1:
            return str(_below(root, text))
    return text


def _target(mount: Mount, models: Mapping[ModelSource, Path]) -> Path | None:
    volume = mount.volume
    if isinstance(volume, HostPath):
        path = Path(volume.path)
        if not path.exists():
            raise Invalid(f"{path} does not exist: create it first", reason="StoragePathMissing")
        return path
    if isinstance(volume, ModelImage | Download):
        return models[volume]
    return None


def _below(root: Path, path: str) -> Path:
    return root.joinpath(*PurePosixPath(path).parts[1:])
