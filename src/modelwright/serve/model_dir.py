"""A model's folder given by hand: one model, or versions in numbered folders as TensorFlow Serving has them."""

from __future__ import annotations

import os
from pathlib import Path

from modelwright.serve.config import ServerConfig, VersionConfig
from modelwright.serve.folder import numbered_folders
from modelwright.serve.options import ServerOptions, config_by_hand

_NOTES = (".md", ".txt")


def configurations(options: ServerOptions) -> list[ServerConfig]:
    """What to serve, the best first: the highest number alone, else the next; raises Invalid (ConfigInvalid).

    A folder with numbered folders and no files but notes holds versions; any other is a model itself, number 1.
    """
    base = config_by_hand(options)
    versions = versions_in(Path(base.versions[0].path))
    return [
        ServerConfig(
            model_name=base.model_name,
            framework_type=base.framework_type,
            versions=(version,),
            default_version=version.version,
        )
        for version in versions or base.versions
    ]


def versions_in(folder: Path) -> tuple[VersionConfig, ...]:
    """The numbered versions that a folder holds, the newest first; none if it is itself a model or cannot be read."""
    try:
        if any(_is_a_models(entry) for entry in folder.iterdir()):
            return ()
        numbered = numbered_folders(folder)
    except OSError:
        return ()
    return tuple(VersionConfig(str(number), number, str(numbered[number])) for number in sorted(numbered, reverse=True))


class Watch:
    """Notices a new version in numbered folders, once nothing has changed in it from one look to the next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: object = None

    def look(self, served: str | None) -> object:
        """What is another value when there is something to load, None while that may still be being copied.

        `served` is the version that is the default now: what happens in its folder is of no interest any more.
        """
        versions = versions_in(self._folder)
        newest = versions[0] if versions else None
        now = None if newest is None else (newest.version, newest.version != served and _stamp(Path(newest.path)))
        before, self._last = self._last, now
        return now if now == before else None


def _is_a_models(entry: Path) -> bool:
    return not entry.name.startswith(".") and entry.suffix.lower() not in _NOTES and entry.is_file()


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...] | None:
    """Names, sizes and times of all files; None if one of them has gone meanwhile."""
    try:
        files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
        stats = [(str(file), file.stat()) for file in sorted(files)]
    except OSError:
        return None
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
