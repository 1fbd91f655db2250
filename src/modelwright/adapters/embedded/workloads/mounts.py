"""Volumes of a command without containers: a folder with a link per mount, and the environment rewritten to match.

On a cluster `/kubedl-model` is a mount. Here it is `root/kubedl-model`, and an environment variable that names it,
or a folder above it, is given the real place. What a user writes literally into a command is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from modelwright.adapters.embedded.workloads import kept
from modelwright.oci.disk import disk_errors
from modelwright.ports.errors import Forbidden, Invalid, Terminal
from modelwright.ports.workloads import Download, HostPath, Kept, ModelImage, ModelSource, Mount, Scratch


def check(mounts: Sequence[Mount]) -> None:
    """Raises Terminal for a volume that only a cluster has, Invalid for paths that are not plain or lie in one another.

    Scratch may hold other mounts: it is a folder of our own.
    """
    for mount in mounts:
        if not isinstance(mount.volume, HostPath | Scratch | Kept | ModelImage | Download):
            kind = type(mount.volume).__name__
            raise Terminal(
                f"a volume of the kind {kind} needs a cluster: use a path on this machine", reason="StorageNotSupported"
            )
        if isinstance(mount.volume, Kept):
            kept.check(mount.volume.name)
        path = PurePosixPath(mount.path)
        if not path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
            raise Invalid(f"the mount path {mount.path!r} is not an absolute path below the root without '..'")
    for mount in mounts:
        for other in mounts:
            if mount is not other and _lies_in(mount, other):
                raise Invalid(
                    f"the mount path {mount.path} lies in {other.path}: mount them apart", reason="MountsOverlap"
                )


def _lies_in(mount: Mount, other: Mount) -> bool:
    inner, outer = PurePosixPath(mount.path), PurePosixPath(other.path)
    return inner.is_relative_to(outer) and (inner == outer or not isinstance(other.volume, Scratch))


def sources(mounts: Sequence[Mount]) -> list[ModelSource]:
    """The models and datasets that have to be here first, each once."""
    return list(dict.fromkeys(mount.volume for mount in mounts if isinstance(mount.volume, ModelImage | Download)))


class Layout:
    """Where each mount is on this machine: `root` holds a link to it, or the folder itself for scratch.

    Making one makes the host paths that may be made. Raises Invalid (StoragePathMissing, StoragePathInvalid) for a host
    path that is not there or no folder, Forbidden (StorageForbidden), Unavailable (DiskFull, DiskError).
    """

    def __init__(self, mounts: Sequence[Mount], root: Path, models: Mapping[ModelSource, Path], data_dir: Path) -> None:
        self._root = root
        self._places: dict[PurePosixPath, Path] = {}
        self._links: dict[Path, Path] = {}
        for mount in sorted(mounts, key=lambda mount: len(PurePosixPath(mount.path).parts)):
            place = root.joinpath(*PurePosixPath(mount.path).parts[1:])
            target = _target(mount, models, data_dir)
            self._places[PurePosixPath(mount.path)] = target or place
            if target is not None:
                self._links[place] = target

    def make(self) -> None:
        """Make the folder with its links; one that is there from an attempt that was interrupted is completed."""
        for place in self._places.values():
            if place.is_relative_to(self._root):
                place.mkdir(parents=True, exist_ok=True)
        for link, target in self._links.items():
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(target)

    def real(self, text: str) -> str:
        """`text` if it is no path that the mounts know, else where that is on this machine."""
        path = PurePosixPath(text)
        if not path.is_absolute():
            return text
        within = self.within(text)
        if within is not None:
            return str(within[0] / within[1])
        if len(path.parts) > 1 and any(place.is_relative_to(path) for place in self._places):
            return str(self._root.joinpath(*path.parts[1:]))
        return text

    def reference(self, text: str) -> str:
        """As `real`, with references still to be expanded: those in `text`, and none in the folders' own names."""
        within = self.within(text)
        if within is None:
            return self.real(text)
        place, rest = within
        return str(PurePosixPath(str(place).replace("$", "$$")) / rest)

    def within(self, text: str) -> tuple[Path, PurePosixPath] | None:
        """The real place of the innermost mount that a path lies in, and the path below it."""
        path = PurePosixPath(text)
        holding = [place for place in self._places if path.is_relative_to(place)]
        if not holding:
            return None
        innermost = max(holding, key=lambda place: len(place.parts))
        return self._places[innermost], path.relative_to(innermost)


def _target(mount: Mount, models: Mapping[ModelSource, Path], data_dir: Path) -> Path | None:
    """What the link leads to; None for scratch."""
    volume = mount.volume
    if isinstance(volume, HostPath):
        return _host_path(volume, data_dir, reads=mount.read_only)
    if isinstance(volume, Kept):
        return kept.prepare(data_dir, volume.name)
    if isinstance(volume, ModelImage | Download):
        return models[volume]
    return None


def _host_path(volume: HostPath, data_dir: Path, *, reads: bool) -> Path:
    path = Path(volume.path).absolute()
    _permit(path, data_dir, reads=reads)
    if volume.create:
        try:
            with disk_errors():
                path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"{path} cannot be made a folder ({error.strerror}): choose another, or make it yourself"
            raise Invalid(message, reason="StoragePathInvalid") from error
    if not path.exists():
        raise Invalid(f"{path} does not exist: create it first", reason="StoragePathMissing")
    return path


def _permit(path: Path, data_dir: Path, *, reads: bool) -> None:
    """A command has no business in the data directory; hard examples are there to be read."""
    real, ours = path.resolve(), data_dir.resolve()
    if reads and real.is_relative_to(ours / kept.FOLDER):
        return
    if real.is_relative_to(ours) or ours.is_relative_to(real):
        raise Forbidden(
            f"{path} and the data directory {data_dir} lie in one another, and the data directory is not for commands: "
            "keep the model in a folder of its own",
            reason="StorageForbidden",
        )
