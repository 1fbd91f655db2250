"""Unpack a tar, such as a layer or a downloaded model, into a folder, trusting nothing in it.

Regular files and folders are written, with modes 0644 and 0755 and the times of unpacking. All else is refused.
Nothing is ever written outside of the destination; what a failed run left inside is the caller's to remove,
or nobody's with `unpacked_into`.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from modelwright.oci.appearing import unpacked_into
from modelwright.oci.names import WHITEOUT, decode_name, entry_parts, shown
from modelwright.oci.recorder import Recorder
from modelwright.oci.tarstream import TarEntry, TarReader
from modelwright.oci.tree import Limits, SafeTree, Unpacked
from modelwright.ports.errors import Rejected

__all__ = [
    "Limits",
    "SafeTree",
    "Unpacked",
    "refuse_kind",
    "refuse_whiteout",
    "unpack_tar",
    "unpack_tar_into",
    "unpacked_into",
]


def unpack_tar(
    stream: BinaryIO,
    destination: Path,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    *,
    subpath: str = "",
    overwrite: bool = False,
    recorder: Recorder | None = None,
) -> Unpacked:
    """Unpack the entries below `subpath` (which is stripped) into `destination`, made if absent.

    The stream is read to its end. Entries outside of `subpath` may be of any type but must have sound names;
    whiteouts that touch `subpath` are refused. For several layers use one SafeTree and `unpack_tar_into`, so that
    limits and collisions count across them. Raises Rejected, or Unavailable (DiskFull).
    """
    with SafeTree(destination, limits, overwrite=overwrite, recorder=recorder) as tree:
        unpack_tar_into(stream, tree, subpath=subpath)
        return tree.unpacked


def unpack_tar_into(stream: BinaryIO, tree: SafeTree, *, subpath: str = "") -> None:
    """As `unpack_tar`, into a tree that may hold the files of earlier layers."""
    below = entry_parts(subpath) if subpath else ()
    reader = TarReader(stream)
    for entry in reader:
        parts = _kept(entry, below, tree)
        if parts is None:
            continue
        if entry.kind == "folder":
            tree.folder(parts)
        else:
            tree.file(parts, entry.size, reader.read)


def _kept(entry: TarEntry, below: tuple[str, ...], tree: SafeTree) -> tuple[str, ...] | None:
    """The path below the subpath, or None for an entry to leave out."""
    parts = entry_parts(decode_name(entry.name))
    refuse_whiteout(parts, below)
    if parts[: len(below)] == below:
        refuse_kind(entry.kind, entry.name)
        return parts[len(below) :]
    if parts == below[: len(parts)]:
        refuse_kind(entry.kind, entry.name, only_folder=True)
    tree.count_skipped()
    return None


def refuse_kind(kind: str, name: bytes | str, *, only_folder: bool = False) -> None:
    """Raise Rejected for what is neither file nor folder."""
    if kind == "folder" or (kind == "file" and not only_folder):
        return
    reason = "ArchiveHasLinks" if "link" in kind else "ArchiveHasSpecialFiles"
    raise Rejected(f"{shown(name)} is a {kind}: only regular files and folders are unpacked", reason=reason)


def refuse_whiteout(parts: tuple[str, ...], below: tuple[str, ...] = ()) -> None:
    """Raise Rejected for a name that, in a layer, deletes what is at or below `below`, or above it."""
    for depth, part in enumerate(parts):
        if not part.startswith(WHITEOUT):
            continue
        opaque = part.startswith(WHITEOUT + WHITEOUT)
        target = parts[:depth] if opaque else (*parts[:depth], part.removeprefix(WHITEOUT))
        if below[: len(target)] == target or target[: len(below)] == below:
            raise Rejected(f"{shown(part)} deletes files of other layers", reason="ArchiveHasWhiteouts")
