"""Where a model is inside its folder.

At the root, or in one top folder of any name; where folders are numbered, as TensorFlow Serving wants versions, in the
one with the highest number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from modelwright.ports.errors import Invalid, NotFound, Rejected

_NUMBER = re.compile(r"[0-9]{1,18}")


def find_files(path: Path, suffixes: Iterable[str]) -> list[Path]:
    """The visible files with one of these suffixes, sorted by name; empty if there are none.

    Raises NotFound (ModelNotFound) if the path does not exist, Rejected (UnsafePath) if a link leads out of it.
    """
    wanted = tuple(suffixes)
    if path.is_file():
        return [path] if path.name.lower().endswith(wanted) else []
    return next((found for place in _places(path) if (found := _matching(place, wanted))), [])


def find_folder(path: Path, file: str) -> Path:
    """The folder that holds this file; raises NotFound (ModelNotFound) and what `find_files` raises."""
    found = None if path.is_file() else next((place for place in _places(path) if (place / file).is_file()), None)
    if found is None:
        raise _nothing(path, file)
    return found


def only_file(files: list[Path], path: Path, kind: str) -> Path:
    """The one file of the list; raises NotFound (ModelNotFound) or Invalid (ModelInvalid)."""
    if not files:
        raise _nothing(path, f"{kind} file")
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        raise Invalid(f"{path} holds {len(files)} {kind} files ({names}); leave one", reason="ModelInvalid")
    return files[0]


def numbered_folders(path: Path) -> dict[int, Path]:
    """The visible folders whose names are numbers, lowest first; of `1` and `01` the last by name.

    Raises OSError if the folder cannot be read.
    """
    found = {int(folder.name): folder for folder in _folders(path) if _NUMBER.fullmatch(folder.name)}
    return dict(sorted(found.items()))


def _nothing(path: Path, what: str) -> NotFound:
    return NotFound(
        f"{path} holds no {what}, neither at its root nor in one top folder; check the model and its frameworkType",
        reason="ModelNotFound",
    )


def _places(path: Path) -> Iterator[Path]:
    """Where a model may be, the outermost first; raises the errors of `find_files`."""
    if not path.is_dir():
        raise NotFound(f"there is no model folder {path}; check that the model was fetched", reason="ModelNotFound")
    _refuse_links_outside(path)
    yield path
    folders, numbered = _folders(path), numbered_folders(path)
    inner = folders[0] if len(folders) == 1 else _last(numbered)
    if inner is not None:
        yield inner
        deepest = _last(numbered_folders(inner))
        if deepest is not None:
            yield deepest


def _last(numbered: dict[int, Path]) -> Path | None:
    return numbered[max(numbered)] if numbered else None


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _folders(folder: Path) -> list[Path]:
    return [entry for entry in _visible(folder) if entry.is_dir()]


def _matching(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return [entry for entry in _visible(folder) if entry.is_file() and entry.name.lower().endswith(suffixes)]


def _refuse_links_outside(root: Path) -> None:
    home = root.resolve()
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            entry = Path(folder, name)
            if entry.is_symlink() and not entry.resolve().is_relative_to(home):
                raise Rejected(
                    f"{entry} is a link that leads out of the model folder; copy the file into it", reason="UnsafePath"
                )
