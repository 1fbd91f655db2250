"""Where a model's file is inside its folder: at the root or in one top folder of any name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from modelwright.ports.errors import Invalid, NotFound, Rejected


def find_files(path: Path, suffixes: Iterable[str]) -> list[Path]:
    """The visible files with one of these suffixes, sorted by name; empty if there are none.

    Raises NotFound (ModelNotFound) if the path does not exist, Rejected (UnsafePath) if a link leads out of it.
    """
    wanted = tuple(suffixes)
    if path.is_file():
        return [path] if path.name.lower().endswith(wanted) else []
    if not path.is_dir():
        raise NotFound(f"there is no model folder {path}; check that the model was fetched", reason="ModelNotFound")
    _refuse_links_outside(path)
    found = _matching(path, wanted)
    folders = [entry for entry in _visible(path) if entry.is_dir()]
    return _matching(folders[0], wanted) if not found and len(folders) == 1 else found


def only_file(files: list[Path], path: Path, kind: str) -> Path:
    """The one file of the list; raises NotFound (ModelNotFound) or Invalid (ModelInvalid)."""
    if not files:
        raise NotFound(
            f"{path} holds no {kind} file, neither at its root nor in one top folder; "
            "check the model and its frameworkType",
            reason="ModelNotFound",
        )
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:5])
        raise Invalid(f"{path} holds {len(files)} {kind} files ({names}); leave one", reason="ModelInvalid")
    return files[0]


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


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
